//! Where a mirror is: a web address or a directory.

use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};
use reqwest::Url;

use crate::failure::{Diagnose, Exit};

/// Why a text names no mirror.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a mirror: expected an http, https or file address, or a directory{}", aside(.why))]
pub struct LocationError {
    /// The text.
    pub found: String,
    /// What is wrong with it, where more is known.
    pub why: String,
}

impl Diagnose for LocationError {
    fn exit(&self) -> Exit {
        Exit::Usage
    }

    fn code(&self) -> &'static str {
        "mirror-address"
    }
}

fn aside(why: &str) -> String {
    if why.is_empty() {
        String::new()
    } else {
        format!(" ({why})")
    }
}

/// A mirror's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A web server.
    Url(Url),
    /// A directory (or, for a single document, a file) on this machine.
    Directory(Utf8PathBuf),
}

impl Location {
    /// Reads an address; a relative path is below `base`.
    pub fn parse(text: &str, base: &Utf8Path) -> Result<Self, LocationError> {
        let error = |why: &str| LocationError {
            found: text.to_owned(),
            why: why.to_owned(),
        };
        if text.is_empty() {
            return Err(error("it is empty"));
        }
        let scheme = text.split_once(':').map(|(scheme, _)| scheme);
        match scheme.map(str::to_ascii_lowercase).as_deref() {
            Some("http" | "https") => {
                let mut url: Url = text.parse().map_err(|e| error(&format!("{e}")))?;
                if url.query().is_some() || url.fragment().is_some() {
                    return Err(error("`?` and `#` have no meaning here"));
                }
                // Without the last slash, joining would replace the last part.
                if !url.path().ends_with('/') && !is_document(&url) {
                    url.set_path(&format!("{}/", url.path()));
                }
                Ok(Self::Url(url))
            }
            Some("file") => {
                let url: Url = text.parse().map_err(|e| error(&format!("{e}")))?;
                let path = url
                    .to_file_path()
                    .map_err(|()| error("a file address needs an absolute path"))?;
                let path =
                    Utf8PathBuf::from_path_buf(path).map_err(|_| error("the path is not UTF-8"))?;
                Ok(Self::Directory(path))
            }
            Some(scheme) if text[scheme.len() + 1..].starts_with("//") => {
                Err(error("no other kind of address is known"))
            }
            _ => Ok(Self::Directory(base.join(text))),
        }
    }

    /// The address of a file of this mirror.
    pub(super) fn join(&self, path: &str) -> Self {
        match self {
            Self::Url(url) => {
                let mut url = url.clone();
                let joined = format!("{}/{path}", url.path().trim_end_matches('/'));
                url.set_path(&joined);
                Self::Url(url)
            }
            Self::Directory(directory) => Self::Directory(directory.join(path)),
        }
    }

    /// The document `name` of this location, or the location itself where it names a document.
    pub(super) fn document(&self, name: &str) -> Self {
        match self {
            Self::Url(url) if is_document(url) => self.clone(),
            Self::Directory(path) if path.is_file() => self.clone(),
            _ => self.join(name),
        }
    }
}

fn is_document(url: &Url) -> bool {
    Utf8Path::new(url.path()).extension() == Some("json")
}

/// Without a password, since it is shown and recorded.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) if url.password().is_some() => {
                let mut url = url.clone();
                let _always_settable = url.set_password(Some("..."));
                url.fmt(f)
            }
            Self::Url(url) => url.fmt(f),
            Self::Directory(path) => path.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Location, LocationError> {
        Location::parse(text, Utf8Path::new("/data"))
    }

    #[test]
    fn addresses_and_directories() {
        for (text, file) in [
            (
                "https://m/pub/linux/kernel",
                "https://m/pub/linux/kernel/v6.x/l",
            ),
            ("http://m:80/", "http://m/v6.x/l"),
            ("/srv/mirror", "/srv/mirror/v6.x/l"),
            ("mirror", "/data/mirror/v6.x/l"),
            ("file:///srv/mirror", "/srv/mirror/v6.x/l"),
            ("a:b/mirror", "/data/a:b/mirror/v6.x/l"),
        ] {
            assert_eq!(parse(text).unwrap().join("v6.x/l").to_string(), file);
        }
    }

    #[test]
    fn what_is_no_mirror_says_so() {
        for bad in [
            "",
            "ftp://m/x",
            "http://",
            "https://m/?x",
            "rsync://m/x",
            "file:x",
        ] {
            let found = parse(bad);
            // `file:x` is an address with an absolute path to the URL standard.
            assert!(found.is_err() || bad == "file:x", "{bad} gave {found:?}");
        }
    }

    #[test]
    fn a_document_may_be_named_itself() {
        let name = "releases.json";
        assert_eq!(
            parse("https://m/releases.json")
                .unwrap()
                .document(name)
                .to_string(),
            "https://m/releases.json"
        );
        assert_eq!(
            parse("https://m").unwrap().document(name).to_string(),
            "https://m/releases.json"
        );
        assert_eq!(
            parse("/srv").unwrap().document(name).to_string(),
            "/srv/releases.json"
        );
    }

    #[test]
    fn passwords_are_not_shown() {
        let shown = parse("https://me:secret@m/").unwrap().to_string();
        assert_eq!(shown, "https://me:...@m/");
    }
}
