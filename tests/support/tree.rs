//! Looking at directories: this repository's own files, and what a run left behind.

use camino::{Utf8Path, Utf8PathBuf};

use super::case::{Stop, fail};

/// The root of this repository.
pub fn repository() -> &'static Utf8Path {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file and directory below `dir`, sorted, relative to it; directories end in a slash.
pub fn listing(dir: &Utf8Path) -> Result<Vec<String>, Stop> {
    let mut found = Vec::new();
    walk(dir, &|_| true, &mut |path, is_dir| {
        let inside = path.strip_prefix(dir).unwrap_or(path);
        found.push(if is_dir {
            format!("{inside}/")
        } else {
            inside.to_string()
        });
    })?;
    found.sort();
    Ok(found)
}

/// Every file of this repository that is written by people, relative to its root: what is built
/// or run here (`target`, `.kiln`) and the history are left out.
pub fn own_files() -> Result<Vec<Utf8PathBuf>, Stop> {
    let root = repository();
    let mut found = Vec::new();
    let enter = |path: &Utf8Path| !matches!(path.file_name(), Some("target" | ".git" | ".kiln"));
    walk(root, &enter, &mut |path, is_dir| {
        // A second work tree has a file `.git` that points to the first.
        if !is_dir && path.file_name() != Some(".git") {
            found.push(path.strip_prefix(root).unwrap_or(path).to_owned());
        }
    })?;
    found.sort();
    Ok(found)
}

/// The Rust files below a directory of this repository with their text.
pub fn rust_files(below: &str) -> Result<Vec<(String, String)>, Stop> {
    let mut files = Vec::new();
    for path in own_files()? {
        if path.starts_with(below) && path.extension() == Some("rs") {
            let text = std::fs::read_to_string(repository().join(&path))?;
            files.push((path.into_string(), text));
        }
    }
    Ok(files)
}

fn walk(
    dir: &Utf8Path,
    enter: &dyn Fn(&Utf8Path) -> bool,
    visit: &mut dyn FnMut(&Utf8Path, bool),
) -> Result<(), Stop> {
    let entries = dir
        .read_dir_utf8()
        .map_err(|error| fail(format!("cannot list {dir}: {error}")))?;
    for entry in entries {
        let entry = entry?;
        // A link is what it is; what it leads to is not entered.
        let is_dir = entry.file_type()?.is_dir();
        if is_dir && !enter(entry.path()) {
            continue;
        }
        visit(entry.path(), is_dir);
        if is_dir {
            walk(entry.path(), enter, visit)?;
        }
    }
    Ok(())
}
