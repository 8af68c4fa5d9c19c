//! The account as people read it: the closing table and the periodic line.

use super::account::{Process, Report};
use crate::launch::Ending;
use crate::size;
use std::fmt::{self, Write};

/// More than these are summed up.
const ROLES: usize = 12;
const OTHERS: usize = 8;

/// The account at the end.
pub fn write(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = lines(&mut out, report);
    out
}

fn lines(out: &mut String, report: &Report) -> fmt::Result {
    let Some(main) = &report.main else {
        return Ok(());
    };
    let how = match report.ending {
        Some(Ending::Signal(signal)) => format!(", ended by signal {signal}"),
        _ => String::new(),
    };
    writeln!(
        out,
        "homefree: {} · pid {} · {:.1} s{how} · usable bytes of {}",
        main.name(),
        main.figures.pid,
        report.seconds,
        main.allocator,
    )?;
    figures(out, main)?;
    roles(out, main)?;
    others(out, report)
}

fn figures(out: &mut String, process: &Process) -> fmt::Result {
    let f = &process.figures;
    let error = |bytes: u64| match bytes {
        0 => String::new(),
        bytes => format!("   off by {} at most", size::show(bytes)),
    };
    let mut row = |name: &str, bytes: u64, more: &str| {
        writeln!(
            out,
            "  {name:<10} {:>20} B {:>9}{more}",
            size::count(bytes),
            size::show(bytes)
        )
    };
    let events = |number: u64, what: &str| match process.counts() {
        true => format!("   {}", size::many(number, what)),
        false => String::new(),
    };
    if process.ended() {
        row(
            "Allocated",
            f.allocated,
            &events(f.allocations, "allocation"),
        )?;
        row("Freed", f.freed, &events(f.frees, "free"))?;
    }
    let when = if process.ended() { "   at its end" } else { "" };
    row("Held", f.current, &format!("{when}{}", error(f.error)))?;
    row("Peak", f.peak, &error(f.peak_error))?;
    if process.forked() {
        row("Inherited", f.inherited, "   held when it was forked")?;
    }
    if process.memory.reserved != 0 {
        let seen = if process.ended() {
            ""
        } else {
            ", when last seen"
        };
        row(
            "Reserved",
            process.memory.reserved,
            &format!("   private writable memory{seen}"),
        )?;
        row(
            "Resident",
            process.memory.resident,
            &format!("   anonymous memory in RAM{seen}"),
        )?;
    }
    if f.limit != 0 {
        let refused = format!("   {} refused", size::many(f.refused, "request"));
        row("Limit", f.limit, &refused)?;
    }
    Ok(())
}

fn roles(out: &mut String, process: &Process) -> fmt::Result {
    let moved = process.roles.len() > 1;
    if !moved {
        return Ok(());
    }
    let which = if process.ended() {
        ""
    } else {
        " that have ended"
    };
    writeln!(
        out,
        "  Threads{which}, by role: what they sent away or hold, and what they received"
    )?;
    let width = process.roles.iter().map(|r| r.name.chars().count()).max();
    let width = width.unwrap_or(0).max(4);
    for role in process.roles.iter().take(ROLES) {
        let flow = match (role.sent(), role.received()) {
            (0, 0) => "all its own".to_owned(),
            (sent, 0) => format!("sent {}", size::show(sent)),
            (_, received) => format!("received {}", size::show(received)),
        };
        writeln!(
            out,
            "    {:<width$}  {:>5}  allocated {:>8}  freed {:>8}  {flow}",
            role.name,
            size::count(role.threads),
            size::show(role.allocated),
            size::show(role.freed),
        )?;
    }
    let more = process.roles.len().saturating_sub(ROLES);
    if more > 0 {
        writeln!(
            out,
            "    and {}; --json has them all",
            size::many(more as u64, "more role")
        )?;
    }
    Ok(())
}

fn others(out: &mut String, report: &Report) -> fmt::Result {
    if report.others.is_empty() {
        return Ok(());
    }
    let number = report.others.len() as u64;
    writeln!(out, "  Other processes: {}", size::count(number))?;
    for process in report.others.iter().take(OTHERS) {
        let how = if process.ended() {
            ""
        } else {
            "   not told its end"
        };
        writeln!(
            out,
            "    {:>7}  {:<16}  held {:>8}  peak {:>8}{how}",
            process.figures.pid,
            process.name().chars().take(16).collect::<String>(),
            size::show(process.figures.current),
            size::show(process.figures.peak),
        )?;
    }
    let more = report.others.len().saturating_sub(OTHERS);
    if more > 0 {
        writeln!(out, "    and {more} more; --json has them all")?;
    }
    Ok(())
}

/// One line while the program runs.
pub fn line(report: &Report) -> String {
    let Some(main) = &report.main else {
        return format!("{:.1} s, nothing counted yet", report.seconds);
    };
    let f = &main.figures;
    let mut line = format!(
        "{:.1} s, {} held (off by {} at most), peak {}, reserved {}, resident {}",
        report.seconds,
        size::show(f.current),
        size::show(f.error),
        size::show(f.peak),
        size::show(main.memory.reserved),
        size::show(main.memory.resident),
    );
    let living = report
        .others
        .iter()
        .filter(|p| !p.ended() && p.memory.reserved != 0);
    let held: Vec<_> = living.map(|p| p.figures.current).collect();
    if !held.is_empty() {
        let number = size::count(held.len() as u64);
        let sum = size::show(held.iter().sum());
        // Writing to a string cannot fail.
        let _ = write!(line, "; {number} more of its processes hold {sum}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::super::account::Role;
    use super::*;
    use homefree_wire::account::{AccountValue, state};

    fn process(state: u32) -> Process {
        Process {
            figures: AccountValue {
                state,
                pid: 7,
                current: 1 << 20,
                peak: 3 << 20,
                error: 4096,
                allocated: 9 << 20,
                freed: 8 << 20,
                ..AccountValue::default()
            },
            command: vec!["/bin/server".into()],
            allocator: "libc.so.6".into(),
            ..Process::default()
        }
    }

    fn report(main: Process) -> Report {
        Report {
            main: Some(main),
            others: Vec::new(),
            ending: Some(Ending::Signal(9)),
            seconds: 2.0,
        }
    }

    #[test]
    fn a_process_that_was_killed_has_no_sums_but_an_error() {
        let text = write(&report(process(state::RUNNING)));
        assert!(text.contains("ended by signal 9"));
        assert!(
            text.contains("1,048,576 B   1.0 MiB   off by 4.0 KiB at most"),
            "{text}"
        );
        assert!(!text.contains("Allocated"), "{text}");
    }

    #[test]
    fn threads_are_shown_by_what_they_sent_and_received() {
        let role = |name: &str, allocated, freed| Role {
            name: name.into(),
            threads: 2,
            allocated,
            freed,
        };
        let mut main = process(state::ENDED);
        main.roles = vec![role("reader-*", 4096, 1024), role("writer-*", 0, 2048)];
        let text = write(&report(main));
        assert!(
            text.contains("reader-*      2  allocated  4.0 KiB  freed  1.0 KiB  sent 3.0 KiB"),
            "{text}"
        );
        assert!(text.contains("received 2.0 KiB"), "{text}");
        assert!(!text.contains("usage"));
    }

    #[test]
    fn a_line_says_how_far_off_it_may_be() {
        let line = line(&report(process(state::RUNNING)));
        assert!(
            line.starts_with("2.0 s, 1.0 MiB held (off by 4.0 KiB at most), peak 3.0 MiB"),
            "{line}"
        );
    }
}
