//! What CMD is, looked at before it is started: can it be recorded, and if not, why and what then.

mod answer;
mod elf;
mod find;
mod privilege;
mod script;

use crate::failure::{Failure, status};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use find::find;

/// A script may name a script as its interpreter; the kernel follows four.
const SCRIPTS: usize = 5;

/// A program that can be recorded.
#[derive(Debug)]
pub struct Program {
    /// The file to start.
    pub path: PathBuf,
    /// It records itself (`homefree::Recorded`): nothing needs to be preloaded.
    pub by_itself: bool,
    /// No library can be preloaded: it records itself, and is static.
    pub is_static: bool,
    /// What to say before it starts: parts of its memory that the recorder will not see.
    pub notes: Vec<String>,
}

/// Finds CMD as a shell does and checks that it can be recorded.
///
/// # Errors
/// 127 and 126 as a shell says them; [`status::NOT_RECORDED`] where the program would run but the
/// recorder could not be in it.
pub fn examine(name: &OsStr, search: Option<&OsStr>) -> Result<Program, Failure> {
    let path = find(name, search)?;
    let mut notes = Vec::new();
    if let Some(note) = known_to_clear(name) {
        notes.push(note);
    }
    let mut file = path.clone();
    for _ in 0..SCRIPTS {
        let head = head(&file)?;
        if head.starts_with(b"\x7fELF") {
            privilege::check(&file)?;
            let recordable = elf::check(&file)?;
            notes.extend(recordable.notes);
            return Ok(Program {
                path,
                by_itself: recordable.by_itself,
                is_static: recordable.is_static,
                notes,
            });
        }
        // Without a `#!` line the kernel refuses, and execvp(3) gives the file to the shell.
        let interpreter = match script::interpreter(&head) {
            Some(interpreter) => interpreter,
            None => script::Interpreter {
                path: "/bin/sh".into(),
                env: None,
            },
        };
        let script = std::mem::replace(&mut file, interpreter.path);
        if !file.exists() {
            return Err(bad_interpreter(&script, &file));
        }
        if let Some(name) = interpreter.env {
            file = find(&name, search)
                .map_err(|failure| bad_interpreter_of(&script, &name, failure.status))?;
        }
    }
    Err(Failure::new(
        status::CANNOT_RUN,
        format!("{}: too many levels of interpreters", path.display()),
    ))
}

/// The first bytes of a file: enough for an ELF identification or the kernel's longest `#!` line.
fn head(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut head = Vec::new();
    match File::open(path).and_then(|file| file.take(256).read_to_end(&mut head)) {
        Ok(_) => Ok(head),
        // Executable but not readable: it can run, but nobody can tell what it is.
        Err(error) => Err(Failure::new(
            status::NOT_RECORDED,
            format!("not recorded: {} cannot be read: {error}", path.display()),
        )
        .why("whether a program can be recorded is told from its file, and symbols are read from it later")
        .advice("make the file readable to yourself, or record a copy of it")),
    }
}

fn bad_interpreter(script: &Path, interpreter: &Path) -> Failure {
    Failure::new(
        status::CANNOT_RUN,
        format!(
            "{}: bad interpreter: {} does not exist",
            script.display(),
            interpreter.display()
        ),
    )
}

fn bad_interpreter_of(script: &Path, name: &OsString, status: u8) -> Failure {
    Failure::new(
        status,
        format!(
            "{}: its `#!` line asks for {}, which is not in PATH",
            script.display(),
            name.display()
        ),
    )
}

/// Programs that start others without our environment, known by name.
fn known_to_clear(name: &OsStr) -> Option<String> {
    let base = Path::new(name).file_name()?.to_str()?;
    let (how, instead) = match base {
        "sudo" | "doas" | "su" | "runuser" | "pkexec" => (
            "clears LD_PRELOAD for the program that it starts",
            format!("{base} … homefree record -- CMD"),
        ),
        "docker" | "podman" | "nerdctl" | "kubectl" | "systemd-run" | "ssh" | "flatpak-spawn" => (
            "has the program started elsewhere, without this environment",
            format!("{base} … homefree record -- CMD"),
        ),
        _ => return None,
    };
    Some(format!(
        "`{base}` {how}: only `{base}` itself will be recorded. Put it the other way round: {instead}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn examine_path(path: &Path) -> Result<Program, Failure> {
        examine(path.as_os_str(), Some(OsStr::new("/usr/bin:/bin")))
    }

    #[test]
    fn an_ordinary_program_passes_without_a_word() {
        let program = examine(OsStr::new("ls"), Some(OsStr::new("/usr/bin:/bin"))).unwrap();
        assert!(program.path.ends_with("ls"));
        assert_eq!(program.notes, Vec::<String>::new());
    }

    #[test]
    fn scripts_are_followed_to_their_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let plain = script(dir.path(), "plain", "echo hello\n");
        assert_eq!(examine_path(&plain).unwrap().path, plain);
        let sh = script(dir.path(), "sh", "#!/bin/sh\n");
        assert_eq!(examine_path(&sh).unwrap().path, sh);
        let env = script(dir.path(), "env", "#!/usr/bin/env sh\n");
        assert_eq!(examine_path(&env).unwrap().path, env);
        let nested = script(dir.path(), "nested", &format!("#!{}\n", sh.display()));
        assert_eq!(examine_path(&nested).unwrap().path, nested);
    }

    #[test]
    fn a_missing_interpreter_is_said_to_be_missing() {
        let dir = tempfile::tempdir().unwrap();
        let bad = script(dir.path(), "bad", "#!/no/such/thing\n");
        let failure = examine_path(&bad).unwrap_err();
        assert_eq!(failure.status, status::CANNOT_RUN);
        assert!(failure.what.contains("/no/such/thing does not exist"));
        let bad = script(dir.path(), "bad2", "#!/usr/bin/env no-such-thing\n");
        let failure = examine_path(&bad).unwrap_err();
        assert_eq!(failure.status, status::NOT_FOUND);
    }

    #[test]
    fn a_script_that_is_its_own_interpreter_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("loop");
        script(dir.path(), "loop", &format!("#!{}\n", path.display()));
        let failure = examine_path(&path).unwrap_err();
        assert_eq!(failure.status, status::CANNOT_RUN);
    }

    #[test]
    fn what_clears_the_environment_is_known_by_name() {
        assert!(known_to_clear(OsStr::new("/usr/bin/sudo")).is_some());
        assert!(known_to_clear(OsStr::new("ls")).is_none());
    }
}
