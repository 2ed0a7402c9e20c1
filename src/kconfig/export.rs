//! Fragments for the kernel's own tools: one series' plain lines, kiln's directives said in words.

use super::fragment::Fragment;
use super::merge::{MergeError, merge};
use crate::dotconfig::{self, DotConfig};
use crate::kernel::Series;

/// The lines that `series` gets of the fragments together, one a symbol in merge order, each after
/// a comment that says where it is from and what it is for. `scripts/kconfig/merge_config.sh` reads
/// the result.
pub fn export(fragments: &[Fragment], series: Series) -> Result<String, MergeError> {
    let merged = merge(&DotConfig::parse(""), fragments, &[], series)?;
    let files: Vec<&str> = fragments.iter().map(|f| &*f.file).collect();
    let mut lines = vec![format!("# {} for {series}", files.join(", "))];
    for (symbol, value) in DotConfig::parse(merged.text()).symbols() {
        for request in merged.requests_for(symbol) {
            let why = request.why.as_deref().unwrap_or("no reason given");
            lines.push(format!("# {}: {why}", request.origin));
        }
        lines.push(dotconfig::line(symbol, value));
    }
    lines.push(String::new());
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_series_without_directives() {
        let text = concat!(
            "# kiln: why \"seen by CONFIG_A is not set\"\nCONFIG_A=y\n",
            "# kiln: series >= 7.0\nCONFIG_B=1\n",
            "# kiln: series < 7.0\nCONFIG_B=y\n# CONFIG_C is not set\n",
        );
        let fragment = Fragment::parse("f.config", text).unwrap();
        let exported = export(std::slice::from_ref(&fragment), "6.12".parse().unwrap()).unwrap();
        assert_eq!(
            exported,
            concat!(
                "# f.config for 6.12\n",
                "# f.config:2: seen by CONFIG_A is not set\nCONFIG_A=y\n",
                "# f.config:6: no reason given\nCONFIG_B=y\n",
                "# f.config:7: no reason given\n# CONFIG_C is not set\n",
            )
        );
        // It says the same to the kernel's reader as the merge does.
        let merged = merge(
            &DotConfig::parse(""),
            &[fragment],
            &[],
            "6.12".parse().unwrap(),
        );
        let merged = DotConfig::parse(merged.unwrap().text());
        assert!(merged.diff(&DotConfig::parse(exported)).is_empty());
    }
}
