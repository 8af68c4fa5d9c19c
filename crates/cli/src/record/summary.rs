//! What is said when the program has ended.

use super::session::Recording;
use crate::failure::{Failure, status};
use crate::launch::Ending;
use crate::{program, size};
use homefree_profile::live::Counters;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// More profiles than this are not listed one by one.
const LISTED: usize = 8;

/// Whether the program was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// To its end, as far as can be told.
    Recorded,
    /// The recorder was never in it.
    NoProfile,
    /// It turned into another program (a path, or a name), which the recorder was not in.
    Became(String),
}

/// The answer where the recorder was not in the program to its end; none where it was.
pub fn unrecorded(name: &str, outcome: &Outcome) -> Option<Failure> {
    let new = |what| Failure::new(status::NOT_RECORDED, what);
    match outcome {
        Outcome::Recorded => None,
        Outcome::NoProfile => Some(
            new(format!("not recorded: {name} ran, but no profile appeared"))
                .why("the loader did not load libhomefree.so (it says why on stderr, if it tried), or it could not write")
                .advice("see whether LD_PRELOAD=$(homefree lib) records it; for a Rust program of your own, `homefree::Recorded` does without the loader"),
        ),
        Outcome::Became(other) => {
            let what = format!("not recorded: {name} turned into {other}, which ran without the recorder");
            // A program that could not have been recorded by itself says best why.
            if let Err(reason) = program::examine(other.as_ref(), std::env::var_os("PATH").as_deref())
                && reason.status == status::NOT_RECORDED
            {
                return Some(new(what).why(reason.why).advice(reason.advice));
            }
            Some(
                new(what)
                    .why("it was started with a cleaned environment, without LD_PRELOAD (env -i, sudo and the like do that)")
                    .advice(format!("put it the other way round: {name} … homefree record -- {other}")),
            )
        }
    }
}

/// The closing lines: totals, profiles, what to type next. `folder` is the current folder.
pub fn summary(recording: &Recording, folder: &Path) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = lines(&mut text, recording, folder);
    text
}

fn lines(out: &mut String, recording: &Recording, folder: &Path) -> std::fmt::Result {
    let c = &recording.counters;
    let frees = c.frees_home + c.frees_remote + c.frees_unknown;
    if let Ending::Signal(signal) = recording.ending {
        writeln!(out, "homefree: the program was ended by {}", name(signal))?;
    }
    let remote = match frees {
        0 => "no frees".into(),
        _ => format!(
            "{} of {} on another thread ({})",
            size::count(c.frees_remote),
            size::many(frees, "free"),
            size::share(c.frees_remote, frees),
        ),
    };
    writeln!(
        out,
        "homefree: {} by {}, {remote}",
        size::many(c.allocations, "allocation"),
        size::many(c.threads, "thread"),
    )?;
    if c.full > 0 {
        writeln!(
            out,
            "homefree: the profile could not grow (disk full?): what happened at new places after that is in the totals only"
        )?;
    }
    let profiles = &recording.profiles;
    let best = match profiles.as_slice() {
        [] => return Ok(()),
        [only] => only,
        several => listed(out, several, folder)?,
    };
    writeln!(
        out,
        "homefree: see it: homefree report {}",
        shown(best, folder)
    )
}

/// Lists several profiles with their events and returns the one with the most.
fn listed<'a>(
    out: &mut String,
    profiles: &'a [PathBuf],
    folder: &Path,
) -> Result<&'a PathBuf, std::fmt::Error> {
    let mut rows: Vec<_> = profiles
        .iter()
        .map(|path| (Counters::read(path).unwrap_or_default().events, path))
        .collect();
    rows.sort_by_key(|(events, _)| std::cmp::Reverse(*events));
    let largest = if rows.len() > LISTED {
        ", the largest"
    } else {
        ""
    };
    writeln!(out, "homefree: {} profiles{largest}:", profiles.len())?;
    let shown_rows: Vec<_> = rows
        .iter()
        .take(LISTED)
        .map(|(events, path)| (size::count(*events), shown(path, folder)))
        .collect();
    let wide = shown_rows.iter().map(|(e, _)| e.len()).max().unwrap_or(0);
    for (events, path) in shown_rows {
        writeln!(out, "  {events:>wide$} events  {path}")?;
    }
    if rows.len() > LISTED {
        writeln!(out, "  and {} more", rows.len() - LISTED)?;
    }
    Ok(rows.first().map_or(&profiles[0], |(_, path)| path))
}

/// A path as one would type it in `folder`.
fn shown(path: &Path, folder: &Path) -> String {
    let path = path.strip_prefix(folder).unwrap_or(path);
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    format!("{name} (signal {signal})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(profiles: &[&str]) -> Recording {
        Recording {
            ending: Ending::Exit(0),
            outcome: Outcome::Recorded,
            profiles: profiles.iter().map(PathBuf::from).collect(),
            counters: Counters {
                allocations: 1000,
                frees_home: 750,
                frees_remote: 250,
                threads: 1,
                ..Counters::default()
            },
        }
    }

    #[test]
    fn one_profile_is_named_by_the_command_to_type() {
        assert_eq!(
            summary(&recording(&["/w/a b.hfp"]), Path::new("/w")),
            "homefree: 1,000 allocations by 1 thread, 250 of 1,000 frees on another thread (25.0%)\n\
             homefree: see it: homefree report 'a b.hfp'\n"
        );
    }

    #[test]
    fn no_frees_are_no_share_of_anything() {
        let mut idle = recording(&["/w/x.hfp"]);
        (idle.counters.frees_home, idle.counters.frees_remote) = (0, 0);
        let text = summary(&idle, Path::new("/w"));
        assert!(text.contains("by 1 thread, no frees\n"), "{text}");
    }

    #[test]
    fn several_profiles_are_listed_and_not_without_end() {
        let names: Vec<String> = (0..20).map(|n| format!("/w/{n}.hfp")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = summary(&recording(&names), Path::new("/w"));
        assert!(text.contains("20 profiles"), "{text}");
        assert!(text.contains("and 12 more"), "{text}");
        assert!(text.ends_with("homefree report 0.hfp\n"), "{text}");
    }

    #[test]
    fn a_killing_signal_and_a_full_disk_are_said() {
        let mut killed = recording(&["/x.hfp"]);
        killed.ending = Ending::Signal(9);
        killed.counters.full = 1;
        let text = summary(&killed, Path::new("/w"));
        assert!(text.contains("SIGKILL (signal 9)"), "{text}");
        assert!(text.contains("disk full"), "{text}");
    }

    #[test]
    fn a_dropped_preload_says_what_ran_and_what_to_do() {
        assert_eq!(unrecorded("env", &Outcome::Recorded), None);
        let failure = unrecorded("env", &Outcome::Became("/bin/ls".into())).unwrap();
        assert_eq!(failure.status, status::NOT_RECORDED);
        assert!(failure.what.contains("env turned into /bin/ls"));
        assert!(failure.advice.contains("homefree record -- /bin/ls"));
        let failure = unrecorded("env", &Outcome::Became("/sbin/ldconfig".into())).unwrap();
        assert!(failure.why.contains("static"), "{failure}");
        let failure = unrecorded("x", &Outcome::NoProfile).unwrap();
        assert!(failure.advice.contains("homefree::Recorded"));
    }
}
