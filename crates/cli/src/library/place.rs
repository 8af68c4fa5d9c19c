//! The folders that the library may be unpacked to, best first.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `$XDG_CACHE_HOME/homefree`, `~/.cache/homefree`, `/tmp/homefree-<uid>`.
pub fn candidates() -> Vec<PathBuf> {
    from(
        env::var_os("XDG_CACHE_HOME"),
        // A home that does not exist (system users) is not made.
        env::var_os("HOME").filter(|home| Path::new(home).is_dir()),
        rustix::process::geteuid().as_raw(),
    )
}

fn from(cache: Option<OsString>, home: Option<OsString>, uid: u32) -> Vec<PathBuf> {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|p| p.is_absolute());
    let mut places = Vec::new();
    if let Some(cache) = absolute(cache) {
        places.push(cache.join("homefree"));
    }
    if let Some(home) = absolute(home) {
        places.push(home.join(".cache/homefree"));
    }
    places.push(PathBuf::from(format!("/tmp/homefree-{uid}")));
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_cache_comes_first_and_tmp_last() {
        let show = |cache: Option<&str>, home: Option<&str>| {
            from(cache.map(Into::into), home.map(Into::into), 7)
                .iter()
                .map(|p| p.display().to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            show(Some("/c"), Some("/h")),
            "/c/homefree /h/.cache/homefree /tmp/homefree-7"
        );
        assert_eq!(show(None, Some("/h")), "/h/.cache/homefree /tmp/homefree-7");
        assert_eq!(show(Some("relative"), Some("")), "/tmp/homefree-7");
    }
}
