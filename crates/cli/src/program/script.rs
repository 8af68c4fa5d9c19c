//! The `#!` line of a script.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What a script asks to be run by.
#[derive(Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The program in the `#!` line.
    pub path: PathBuf,
    /// Where that is `env`: the program that `env` looks up in `PATH`.
    pub env: Option<OsString>,
}

/// Reads the `#!` line from the first bytes of a file; `None` where there is none.
pub fn interpreter(head: &[u8]) -> Option<Interpreter> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|b| *b == b'\n').next()?;
    let mut words = line
        .split(|b| matches!(b, b' ' | b'\t' | b'\r' | 0))
        .filter(|word| !word.is_empty());
    let path = PathBuf::from(OsStr::from_bytes(words.next()?));
    let is_env = path.file_name() == Some(OsStr::new("env"));
    // Options of env (-S, -i, …) and assignments stand before the program.
    let env = words
        .find(|word| is_env && !word.starts_with(b"-") && !word.contains(&b'='))
        .map(|word| OsStr::from_bytes(word).to_owned());
    Some(Interpreter { path, env })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(head: &str) -> Option<(String, Option<String>)> {
        let found = interpreter(head.as_bytes())?;
        let env = found.env.map(|name| name.into_string().unwrap());
        Some((found.path.display().to_string(), env))
    }

    #[test]
    fn the_interpreter_is_the_first_word() {
        let path = |head| path_of(head).unwrap();
        assert_eq!(path("#!/bin/sh\nx"), ("/bin/sh".into(), None));
        assert_eq!(path("#! /bin/sh -e\r\nx"), ("/bin/sh".into(), None));
        assert_eq!(path("#!/usr/bin/perl -w"), ("/usr/bin/perl".into(), None));
    }

    #[test]
    fn env_names_the_program_after_its_options() {
        let env = |head| path_of(head).unwrap().1.unwrap();
        assert_eq!(env("#!/usr/bin/env python3\n"), "python3");
        assert_eq!(env("#!/usr/bin/env -S A=1 python3 -u\n"), "python3");
        assert_eq!(path_of("#!/usr/bin/env\n").unwrap().1, None);
    }

    #[test]
    fn no_line_no_interpreter() {
        for head in ["", "#", "#!", "#! \n/bin/sh", "echo"] {
            assert_eq!(path_of(head), None, "{head}");
        }
    }
}
