//! What a reader must know to judge the figures: cut stacks, missing symbols, lost events.

use super::rows::Key;
use super::{Format, Report, units};
use crate::merge::{End, Merged};
use crate::site::Site;
use crate::symbols::{Known, Module};
use std::collections::{BTreeMap, BTreeSet, HashMap};

const NO_LINES: &str = "no debug information, so functions have no lines and inlined ones are not told apart; build with -g or install debug symbols";

const STRIPPED: &str =
    "stripped, so its symbols are missing; install debug symbols for it and report again";
const STRIPPED_SEVERAL: &str =
    "stripped, so their symbols are missing; install debug symbols for them and report again";

/// Modules named in one sentence.
const MODULES_NAMED: usize = 6;

/// Allocations whose stack could not be followed to its end, by the module where it was lost.
pub(super) fn cuts(merged: &Merged) -> HashMap<u32, u64> {
    let mut cuts: HashMap<u32, u64> = HashMap::new();
    for ((_, stack), sums) in &merged.sites {
        if let Some((End::Cut, frame)) = merged.stacks.end(*stack) {
            let sum = cuts.entry(frame.module).or_default();
            *sum = sum.saturating_add(sums.allocated.count);
        }
    }
    cuts
}

impl Report {
    /// Adds warnings that only the whole report can tell.
    pub(super) fn add_notes(&mut self) {
        let mut notes = Vec::new();
        let t = &self.totals;
        if t.lost > 0 {
            notes.push(format!(
                "{} events had no room in the profile: they are in the totals, but at no site",
                units::count(t.lost)
            ));
        }
        if t.untracked > 0 {
            notes.push(format!(
                "{} allocations could not be recorded; their frees count as unknown",
                units::count(t.untracked)
            ));
        }
        notes.extend(self.missing_symbols());
        self.warnings.extend(notes);
    }

    /// One line for each reason why shown places have no names.
    fn missing_symbols(&self) -> Vec<String> {
        let mut by_reason: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let (nameless, lineless) = self.shown_modules();
        let why_lineless = |known| {
            let without = matches!(known, Known::Exported | Known::Functions);
            without.then(|| NO_LINES.to_owned())
        };
        let all = nameless.union(&lineless).copied();
        for id in all {
            let (Some(module), Some(known)) = (self.module(id), self.symbolizer.known(id)) else {
                continue;
            };
            let reason = if nameless.contains(&id) {
                why_nameless(known, module)
            } else {
                why_lineless(known)
            };
            if let Some(reason) = reason {
                // The build id is what the symbols are looked for by.
                let name = match module.build_id_hex().filter(|_| known == Known::Exported) {
                    Some(id) => format!("{} (build id {id})", module.short()),
                    None => module.short().to_owned(),
                };
                by_reason.entry(reason).or_default().insert(name);
            }
        }
        by_reason
            .into_iter()
            .map(|(reason, modules)| {
                // The other reasons name a path, and so one module.
                let reason = match reason.as_str() {
                    STRIPPED if modules.len() > 1 => STRIPPED_SEVERAL,
                    one => one,
                };
                let more = modules.len().saturating_sub(MODULES_NAMED);
                let mut modules: Vec<_> = modules.into_iter().take(MODULES_NAMED).collect();
                if more > 0 {
                    modules.push(format!("and {more} more"));
                }
                format!("{}: {reason}", modules.join(", "))
            })
            .collect()
    }

    /// Modules of the shown sites (with whole stacks: of their frames too) that have no name, and of
    /// those with a name but no line.
    fn shown_modules(&self) -> (BTreeSet<u32>, BTreeSet<u32>) {
        let (mut nameless, mut lineless) = (BTreeSet::new(), BTreeSet::new());
        let mut see = |site: &Site| match site {
            Site::Address { module, .. } => {
                nameless.insert(*module);
            }
            Site::Function {
                module, file: None, ..
            } => {
                lineless.insert(*module);
            }
            Site::Function { .. } | Site::None => {}
        };
        for row in &self.rows {
            match &row.key {
                Key::Flow { alloc, free, .. } => {
                    see(alloc);
                    see(free);
                }
                Key::Alloc(site) | Key::Free(site) => see(site),
                Key::Role(..) => {}
            }
        }
        let mut stacks = Vec::new();
        if self.options.format == Format::Json {
            stacks.extend(
                self.listed_flows(false)
                    .flat_map(|(k, _)| [k.alloc_stack, k.free_stack]),
            );
        } else if self.options.full_stacks {
            let flows = self.rows.iter().filter_map(|r| r.flows.first());
            stacks.extend(flows.flat_map(|k| [k.alloc_stack, k.free_stack]));
        }
        for frame in stacks
            .into_iter()
            .flat_map(|s| self.merged.stacks.frames(s))
        {
            if self.symbolizer.answered(frame).is_empty() {
                nameless.insert(frame.module);
            }
        }
        (nameless, lineless)
    }
}

fn why_nameless(known: Known, module: &Module) -> Option<String> {
    let path = crate::symbols::undeleted(&module.path);
    Some(match known {
        Known::Exported => STRIPPED.into(),
        Known::NoFile => format!("{path} is not there any more, so its symbols are missing"),
        Known::OtherBuild => format!(
            "{path} is not the build that was recorded, so its symbols are not used; put the recorded build back, or record again"
        ),
        Known::Newer => format!(
            "{path} was changed after the recording and has no build id, so its symbols are not used; link with --build-id, or record again"
        ),
        Known::Unreadable => format!("{path} cannot be read as ELF, so its symbols are missing"),
        Known::NoMap => {
            "code made at run time; for its names let the program write a perf map (node --perf-basic-prof, java -XX:+DumpPerfMapAtExit, python3 -X perf) while it is recorded".into()
        }
        Known::Debug | Known::Functions | Known::PerfMap | Known::Vdso => return None,
    })
}
