//! How much a build takes, before it is started.

use crate::dotconfig::{DotConfig, Value};

/// How much a build of a configuration takes.
///
/// The numbers are a model, not a measurement of this build: they come from builds of Linux 6.12
/// with gcc 12, see each number. They are meant to be somewhat too high.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Objects to compile.
    pub objects: u64,
    /// Disk space for the object tree and the packages, in bytes.
    pub disk_bytes: u64,
    /// Memory at the worst moment for `jobs` jobs, in bytes.
    pub memory_bytes: u64,
    /// Processor time, in seconds, of a machine like the one measured.
    pub cpu_seconds: u64,
}

const MIB: u64 = 1 << 20;

impl Estimate {
    /// The estimate for two jobs.
    pub fn of(config: &DotConfig) -> Self {
        Self::for_jobs(config, 2)
    }

    /// The estimate for `jobs` jobs.
    pub fn for_jobs(config: &DotConfig, jobs: u64) -> Self {
        let count = |wanted: &Value| {
            let symbols = config.symbols().filter(|(_, value)| *value == wanted);
            symbols.count() as u64
        };
        let (built_in, modules) = (count(&Value::Yes), count(&Value::Module));
        let on = |symbol: &str| !config.is_off(symbol);
        // Fitted through five configurations: two were built, with (y, m) = (825, 5) and (913, 9)
        // and 1464 and 1595 objects; for Debian's none, cloud and rt, objects were counted from the
        // makefiles, and the same share was added that the counts of the first two lacked.
        let objects = 730 + built_in * 92 / 100 + modules * 275 / 100;
        let debug = on("DEBUG_INFO");
        let btf = on("DEBUG_INFO_BTF");
        // 423 MiB for 1464 objects without debugging information; with it, by reports of others,
        // 20 GB for Debian's configuration.
        let object_kib = if debug { 1500 } else { 320 };
        let disk_bytes = (objects * object_kib).div_ceil(1024) * MIB + 300 * MIB;
        // A compiler holds up to 300 MiB; the last link holds the whole kernel, with debugging
        // information several times over, and pahole all types at once.
        let last = match (debug, btf) {
            (_, true) => 3_500,
            (true, false) => 2_000,
            (false, false) => 700,
        };
        let memory_bytes = (jobs * 300).max(last) * MIB;
        // 927 s for 1464 objects.
        let cpu_seconds = objects * if debug { 17 } else { 13 } / 20;
        Self {
            objects,
            disk_bytes,
            memory_bytes,
            cpu_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration of so many options.
    fn config(built_in: usize, modules: usize) -> DotConfig {
        let lines = |count, value| (0..count).map(move |n| format!("CONFIG_{value}{n}={value}\n"));
        let text: String = lines(built_in, "y").chain(lines(modules, "m")).collect();
        DotConfig::parse(text)
    }

    #[test]
    fn real_builds_are_within_a_twentieth() {
        for (built_in, modules, objects) in [(825, 5, 1464), (913, 9, 1595)] {
            let estimate = Estimate::of(&config(built_in, modules)).objects;
            let off = estimate.abs_diff(objects);
            assert!(off * 20 <= objects, "{estimate} for {objects}");
        }
    }

    #[test]
    fn debugging_information_costs_disk_and_memory() {
        let plain = DotConfig::parse("CONFIG_A=y\nCONFIG_B=m\n");
        let debug = DotConfig::parse(
            "CONFIG_A=y\nCONFIG_B=m\nCONFIG_DEBUG_INFO=y\nCONFIG_DEBUG_INFO_BTF=y\n",
        );
        let (plain, debug) = (Estimate::of(&plain), Estimate::of(&debug));
        assert!(debug.disk_bytes > 2 * plain.disk_bytes);
        assert!(debug.memory_bytes > 3 * plain.memory_bytes);
    }
}
