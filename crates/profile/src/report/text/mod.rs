//! The report for people.

mod stacks;
mod table;

use super::Report;
use super::fit::{cut_middle, left, right, width, wrap};
use super::units::{bytes, count, duration, share};
use anstyle::{AnsiColor, Style};
use std::io::{self, Write};

/// How the text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns; what is outside of 40 to 200 is taken as the nearer of the two.
    pub width: usize,
    /// ANSI colours.
    pub colour: bool,
}

impl Default for TextStyle {
    fn default() -> Self {
        TextStyle {
            width: 100,
            colour: false,
        }
    }
}

/// From so many columns on, a row's figures stand in columns, and a function beside its line.
const WIDE: usize = 72;
const INDENT: usize = 4;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const ROLE: Style = AnsiColor::Cyan.on_default();
const REMOTE: Style = AnsiColor::Yellow.on_default().bold();
const SITE: Style = AnsiColor::Green.on_default().bold();
const WARN: Style = AnsiColor::Yellow.on_default();

pub(super) fn write(report: &Report, out: &mut dyn Write, style: &TextStyle) -> io::Result<()> {
    let working_dir = std::env::current_dir().map(|d| d.display().to_string());
    let page = Page {
        report,
        columns: style.width.clamp(40, 200),
        colour: style.colour,
        working_dir: working_dir.unwrap_or_default(),
    };
    let mut lines = Vec::new();
    page.head(&mut lines);
    page.totals(&mut lines);
    page.asides(&mut lines);
    page.warnings(&report.warnings[..report.damage], &mut lines);
    page.table(&mut lines);
    page.warnings(&report.warnings[report.damage..], &mut lines);
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    for line in lines {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

struct Page<'a> {
    report: &'a Report,
    columns: usize,
    colour: bool,
    working_dir: String,
}

impl Page<'_> {
    fn paint(&self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// The program and the run.
    fn head(&self, lines: &mut Vec<String>) {
        let inputs = &self.report.inputs;
        let (title, mut facts) = match &inputs[..] {
            [one] => {
                let title = if one.command.is_empty() {
                    &one.path
                } else {
                    &one.command
                };
                let mut facts = vec![format!("pid {}", one.pid)];
                if one.duration_ns > 0 {
                    // Who was killed, or still runs, has run on after the clock was last read.
                    let least = if one.ended { "" } else { "≥ " };
                    facts.push(format!("{least}{}", duration(one.duration_ns as f64)));
                }
                (title.clone(), facts)
            }
            many => {
                let mut programs: Vec<_> = many.iter().map(|i| i.program()).collect();
                programs.sort_unstable();
                programs.dedup();
                (
                    programs.join(", "),
                    vec![format!("{} profiles", many.len())],
                )
            }
        };
        facts.push(sampling(inputs.iter().map(|i| i.sample_bytes)));
        lines.push(self.paint(BOLD, &cut_middle(&title, self.columns)));
        for line in wrap(&facts.join(" · "), self.columns) {
            lines.push(self.paint(DIM, &line));
        }
        lines.push(String::new());
    }

    fn totals(&self, lines: &mut Vec<String>) {
        let t = self.report.totals();
        let error = |e: Option<f64>, n: u64| match e {
            Some(e) if n > 0 && e > 0.0 => format!(" ±{}", percent(e / n as f64)),
            _ => String::new(),
        };
        let errors = t.errors;
        let frees = t.frees();
        let mut rows = vec![
            (
                "Allocations",
                count(t.allocations) + &error(errors.map(|e| e.allocations), t.allocations),
                String::new(),
                bytes(t.allocated_bytes),
                Style::new(),
            ),
            (
                "Home frees",
                count(t.frees_home) + &error(errors.map(|e| e.frees_home), t.frees_home),
                share(t.frees_home, frees),
                bytes(t.frees_home_bytes),
                Style::new(),
            ),
            (
                "Remote frees",
                count(t.frees_remote) + &error(errors.map(|e| e.frees_remote), t.frees_remote),
                share(t.frees_remote, frees),
                bytes(t.frees_remote_bytes),
                if t.frees_remote > 0 {
                    REMOTE
                } else {
                    Style::new()
                },
            ),
            (
                "Unknown frees",
                count(t.frees_unknown),
                share(t.frees_unknown, frees),
                String::new(),
                Style::new(),
            ),
            (
                if t.live_at_exit {
                    "Live at exit"
                } else {
                    "Still live"
                },
                count(t.live),
                String::new(),
                bytes(t.live_bytes),
                Style::new(),
            ),
        ];
        if t.frees_unknown == 0 {
            rows.remove(3);
        }
        let widest = |widths: &mut dyn Iterator<Item = usize>| widths.max().unwrap_or(0);
        let label = widest(&mut rows.iter().map(|r| width(r.0))) + 1;
        let a = widest(&mut rows.iter().map(|r| width(&r.1)));
        let b = widest(&mut rows.iter().map(|r| width(&r.2)));
        let c = widest(&mut rows.iter().map(|r| width(&r.3)));

        self.roles(label, lines);
        let one_line = label + a + b + c + 4 <= self.columns;
        for (name, n, part, size, style) in &rows {
            let name = left(name, label);
            let figures = format!("{}  {}", right(n, a), right(part, b));
            if one_line {
                let figures = format!("{figures}  {}", right(size, c));
                lines.push(format!("{name}{}", self.paint(*style, &figures)));
            } else {
                lines.push(format!("{name}{}", self.paint(*style, &figures)));
                if !size.is_empty() {
                    let size = right(size, a);
                    lines.push(format!(
                        "{}{}",
                        " ".repeat(label),
                        self.paint(*style, &size)
                    ));
                }
            }
        }
        if !t.live_at_exit {
            let why = self.why_not_exit();
            for line in wrap(&why, self.columns.saturating_sub(2)) {
                lines.push(format!("  {}", self.paint(DIM, &line)));
            }
        }
        lines.push(String::new());
    }

    /// Threads by role, most first, in as many lines as they take.
    fn roles(&self, label: usize, lines: &mut Vec<String>) {
        let mut roles: Vec<_> = self
            .report
            .merged
            .roles
            .iter()
            .filter(|r| r.threads > 0)
            .collect();
        roles.sort_by(|a, b| (b.main, b.threads, &a.name).cmp(&(a.main, a.threads, &b.name)));
        let threads = count(self.report.totals().threads);
        let indent = label.min(self.columns / 2);
        let room = self.columns - indent;
        let mut line = left("Threads", indent);
        line.push_str(&threads);
        let mut used = width(&threads);
        let shown = 12;
        let more = roles.len().saturating_sub(shown);
        let items = roles.iter().take(shown).map(|r| {
            let n = if r.main && r.threads == 1 {
                String::new()
            } else {
                format!(" {}", count(r.threads))
            };
            (
                cut_middle(&r.name, room.saturating_sub(width(&n) + 3).max(8)),
                n,
            )
        });
        let rest = (more > 0).then(|| (format!("and {more} more roles"), String::new()));
        for (i, (name, n)) in items.chain(rest).enumerate() {
            let gap = if i == 0 { "   " } else { " · " };
            let item = width(&name) + width(&n);
            if used + width(gap) + item > room {
                lines.push(std::mem::take(&mut line));
                line = " ".repeat(indent);
                used = 0;
            } else {
                line.push_str(&self.paint(DIM, gap));
                used += width(gap);
            }
            line.push_str(&self.paint(ROLE, &name));
            line.push_str(&n);
            used += item;
        }
        lines.push(line);
    }

    fn why_not_exit(&self) -> String {
        let inputs = &self.report.inputs;
        if inputs.iter().any(|i| i.truncated) {
            "(still live when the recording stopped: the profile is cut, frees may be missing)"
                .into()
        } else if inputs.iter().any(|i| i.incomplete) {
            "(the profile is damaged: frees may be missing)".into()
        } else {
            "(still live when the recording stopped: the program runs, or was killed)".into()
        }
    }

    /// Counts that are usually zero, and cut stacks.
    fn asides(&self, lines: &mut Vec<String>) {
        let t = self.report.totals();
        let mut facts: Vec<String> = [
            (t.failed, "failed allocations"),
            (t.late, "events after a thread's end"),
            (t.reentrant, "calls from inside other hooked calls"),
            (t.untracked, "untracked allocations"),
            (t.lost, "events without room"),
        ]
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{} {what}", count(*n)))
        .collect();
        let mut cuts: Vec<_> = self.report.cuts.iter().filter(|(_, n)| **n > 0).collect();
        cuts.sort_by_key(|(module, n)| (std::cmp::Reverse(**n), **module));
        if !cuts.is_empty() {
            let all: u64 = cuts.iter().fold(0, |sum, (_, n)| sum.saturating_add(**n));
            let modules: Vec<_> = cuts
                .iter()
                .take(4)
                .map(|(module, n)| {
                    let name = self.report.module(**module).map_or("?", |m| m.short());
                    format!("{name} {}", share(**n, t.allocations))
                })
                .collect();
            facts.push(format!(
                "cut stacks: {} of allocations ({})",
                share(all, t.allocations),
                modules.join(", ")
            ));
        }
        if facts.is_empty() {
            return;
        }
        for line in wrap(&facts.join(" · "), self.columns) {
            lines.push(self.paint(DIM, &line));
        }
        lines.push(String::new());
    }

    fn warnings(&self, warnings: &[String], lines: &mut Vec<String>) {
        for warning in warnings {
            let text = wrap(warning, self.columns.saturating_sub(2));
            for (i, line) in text.iter().enumerate() {
                let mark = if i == 0 { "! " } else { "  " };
                lines.push(format!("{}{line}", self.paint(WARN, mark)));
            }
        }
        if !warnings.is_empty() {
            lines.push(String::new());
        }
    }
}

/// Which events were recorded, from each input's mean bytes between samples.
fn sampling(inputs: impl Iterator<Item = u64> + Clone) -> String {
    let sampled = inputs.clone().filter(|&n| n != 0);
    let (Some(least), Some(most)) = (sampled.clone().min(), sampled.clone().max()) else {
        return "every event".into();
    };
    let every = if least == most {
        bytes(least)
    } else {
        format!("{} to {}", bytes(least), bytes(most))
    };
    match (sampled.count(), inputs.count()) {
        (some, all) if some < all => format!("{some} of {all} sampled, every {every}"),
        _ => format!("one sample every {every}"),
    }
}

fn percent(part: f64) -> String {
    if part >= 0.0995 {
        format!("{:.0}%", part * 100.0)
    } else {
        format!("{:.1}%", part * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::sampling;

    #[test]
    fn inputs_that_are_sampled_are_told_from_those_that_are_not() {
        let says = |inputs: &[u64]| sampling(inputs.iter().copied());
        assert_eq!(says(&[0, 0]), "every event");
        assert_eq!(says(&[65_536, 65_536]), "one sample every 64.0 KiB");
        assert_eq!(
            says(&[65_536, 1_024]),
            "one sample every 1.0 KiB to 64.0 KiB"
        );
        let mut mixed = [0; 13];
        mixed[7] = 65_536;
        assert_eq!(says(&mixed), "1 of 13 sampled, every 64.0 KiB");
        mixed[8] = 524_288;
        assert_eq!(says(&mixed), "2 of 13 sampled, every 64.0 KiB to 512.0 KiB");
    }
}
