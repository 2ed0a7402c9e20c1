//! The way to the network, for programs that go there.

/// The variables of this process that say through which proxy to go, with their values. A program
/// that uses the network is given them on top of its clean environment.
pub fn proxies() -> impl Iterator<Item = (String, String)> {
    const NAMES: [&str; 8] = [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
    ];
    NAMES
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
}
