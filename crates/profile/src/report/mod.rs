//! From profiles to a ranked report.

mod fit;
mod json;
mod notes;
mod rows;
mod text;
mod totals;
mod units;

use crate::merge::{Merged, StackId};
use crate::open::Profile;
use crate::site::{self, Site};
use crate::symbols::Symbolizer;
use regex::Regex;
use rows::Row;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;

pub use text::TextStyle;
pub use totals::{Errors, Totals};

/// Rows of the text report when no number was asked for.
pub const DEFAULT_TOP: usize = 20;

/// What one row of the report stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Allocation site and role, free site and role.
    #[default]
    Flow,
    /// Allocation site.
    AllocSite,
    /// Free site.
    FreeSite,
    /// Allocating role and freeing role.
    Role,
}

/// What the report is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// [`Report::write_text`].
    #[default]
    Text,
    /// [`Report::write_json`]: whole stacks of all flows.
    Json,
}

/// What to show. The totals always are those of the whole profiles.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Rows (in JSON: flows) at most. Default: [`DEFAULT_TOP`] in text, all in JSON.
    pub top: Option<usize>,
    /// What a row is (text only; JSON has them all).
    pub by: By,
    /// Only flows whose allocating or freeing role's name matches.
    pub thread: Option<Regex>,
    /// Only flows where `function file:line module` of one of the two sites matches.
    pub site: Option<Regex>,
    /// Only rows (in JSON: flows) of at least so many bytes.
    pub min_bytes: u64,
    /// Whole stacks below each row (text only; JSON always has them).
    pub full_stacks: bool,
    /// What the report is made for: which frames must be resolved.
    pub format: Format,
}

/// How far [`Report::build`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgressEvent {
    /// Profiles merged so far.
    Merging {
        /// Profiles done.
        done: usize,
        /// Profiles in all.
        total: usize,
    },
    /// Stacks symbolized so far.
    Symbolizing {
        /// Stacks done.
        done: usize,
        /// Stacks in all.
        total: usize,
    },
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// An empty list of profiles.
    #[error("no profile was given; name at least one .hfp file, as `homefree record` leaves them")]
    NoProfiles,
}

/// One input, as shown in the report.
#[derive(Clone, Debug)]
struct Input {
    path: String,
    pid: u32,
    command: String,
    exe: String,
    host: String,
    allocator: String,
    labels: Vec<String>,
    ended: bool,
    truncated: bool,
    /// Pages are missing or damaged.
    incomplete: bool,
    start_realtime_ns: u64,
    duration_ns: u64,
    sample_bytes: u64,
    stacks: u32,
    depth: u32,
    all_free_stacks: bool,
}

/// Merged, symbolized, ranked profiles.
pub struct Report {
    options: Options,
    inputs: Vec<Input>,
    merged: Merged,
    symbolizer: Symbolizer,
    /// Of every stack that a shown or filtered flow has.
    sites: HashMap<StackId, Site>,
    totals: Totals,
    rows: Vec<Row>,
    /// Rows that matched, shown or not.
    matched: usize,
    /// Remote frees in those that are not.
    hidden_frees: u64,
    cuts: HashMap<u32, u64>,
    /// Those about the inputs, then those about what is shown.
    warnings: Vec<String>,
    /// How many are about the inputs.
    damage: usize,
}

impl Report {
    /// Merges, resolves what will be shown, and ranks. A profile that is given twice (or a copy of it) is
    /// counted once, with a warning.
    ///
    /// # Errors
    /// [`ReportError::NoProfiles`]. Files with symbols that cannot be read are not errors; the report
    /// says so.
    pub fn build(
        profiles: Vec<Profile>,
        options: &Options,
        progress: &dyn Fn(ProgressEvent),
    ) -> Result<Report, ReportError> {
        if profiles.is_empty() {
            return Err(ReportError::NoProfiles);
        }
        let mut merged = Merged::new();
        let mut symbolizer = Symbolizer::default();
        let (mut inputs, mut warnings) = (Vec::new(), Vec::new());
        let total = profiles.len();
        let mut read: HashMap<u64, PathBuf> = HashMap::new();
        for (done, profile) in profiles.into_iter().enumerate() {
            progress(ProgressEvent::Merging { done, total });
            let (id, path) = (profile.header.id, profile.path());
            match read.get(&id).filter(|_| id != 0) {
                Some(first) => {
                    warnings.push(format!(
                        "{}: the same profile as {}, so it is counted once",
                        path.display(),
                        first.display()
                    ));
                    continue;
                }
                None => read.insert(id, path.to_owned()),
            };
            merged.add(&profile, &mut symbolizer);
            warnings.extend(profile.warnings().iter().map(ToString::to_string));
            inputs.push(Input::new(&profile));
        }
        merged.tell_roles_apart();

        let whole = inputs.iter().all(|i| i.ended && !i.incomplete);
        let totals = Totals::of(&merged, whole, inputs.iter().any(|i| i.sample_bytes != 0));
        let mut report = Report {
            options: options.clone(),
            inputs,
            cuts: notes::cuts(&merged),
            merged,
            symbolizer,
            sites: HashMap::new(),
            totals,
            rows: Vec::new(),
            matched: 0,
            hidden_frees: 0,
            damage: warnings.len(),
            warnings,
        };
        report.choose_sites(progress);
        report.rank();
        report.resolve_shown_stacks();
        report.add_notes();
        Ok(report)
    }

    /// Sums over all profiles.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// What could not be read, and what is not known for sure; one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Writes the report for people.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_text(&self, out: &mut dyn Write, style: &TextStyle) -> io::Result<()> {
        text::write(self, out, style)
    }

    /// Writes the report for programs, see `docs/json.md`. Build it with [`Format::Json`]; otherwise
    /// only what the text shows has names.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        json::write(self, out)
    }

    /// The sites of all flows that may be shown, and of all allocations where they are ranked.
    fn choose_sites(&mut self, progress: &dyn Fn(ProgressEvent)) {
        let flows = self.merged.flows.keys();
        let flows = flows.filter(|k| self.thread_matches(&[k.alloc_role, k.free_role]));
        let mut stacks: Vec<StackId> = flows.flat_map(|k| [k.alloc_stack, k.free_stack]).collect();
        if self.options.format == Format::Json || self.options.by == By::AllocSite {
            stacks.extend(self.merged.sites.keys().map(|(_, stack)| *stack));
        }
        stacks.sort_unstable();
        stacks.dedup();
        let total = stacks.len();
        for (done, stack) in stacks.into_iter().enumerate() {
            progress(ProgressEvent::Symbolizing { done, total });
            let (m, s) = (&self.merged, &mut self.symbolizer);
            let site = site::choose(stack, &m.stacks, &m.modules, s);
            self.sites.insert(stack, site);
        }
    }

    fn resolve_shown_stacks(&mut self) {
        let json = self.options.format == Format::Json;
        if !json && !self.options.full_stacks {
            return;
        }
        let mut stacks = Vec::new();
        if json {
            let flows = self.listed_flows(false).chain(self.listed_flows(true));
            stacks.extend(flows.flat_map(|(k, _)| [k.alloc_stack, k.free_stack]));
        } else {
            let shown = self.rows.iter().filter_map(|r| r.flows.first());
            stacks.extend(shown.flat_map(|k| [k.alloc_stack, k.free_stack]));
        }
        for stack in stacks {
            for frame in self.merged.stacks.frames(stack) {
                self.symbolizer.symbols(&self.merged.modules, frame);
            }
        }
        if json {
            for id in 0..self.merged.modules.len() {
                self.symbolizer.open(&self.merged.modules, id as u32);
            }
        }
    }

    fn site(&self, stack: StackId) -> &Site {
        self.sites.get(&stack).unwrap_or(&Site::None)
    }

    fn role(&self, id: u32) -> &str {
        self.merged.roles.get(id as usize).map_or("?", |r| &r.name)
    }

    fn module(&self, id: u32) -> Option<&crate::symbols::Module> {
        self.merged.modules.get(id as usize)
    }
}

impl Input {
    fn new(profile: &Profile) -> Self {
        let (header, tables) = (&profile.header, &profile.tables);
        Input {
            path: profile.path.display().to_string(),
            pid: header.pid,
            command: profile.command(),
            exe: tables.exe.clone(),
            host: tables.host.clone(),
            allocator: tables.allocator.clone(),
            labels: tables.labels.clone(),
            ended: profile.ended(),
            truncated: profile.truncated,
            incomplete: profile.incomplete(),
            start_realtime_ns: header.start_realtime_ns,
            duration_ns: profile.duration_ns(),
            sample_bytes: header.sample_bytes,
            stacks: header.stacks,
            depth: header.depth,
            all_free_stacks: header.free_stacks != 0,
        }
    }

    /// File name of the program; the profile's where that is not known.
    fn program(&self) -> &str {
        let path = if self.exe.is_empty() {
            &self.path
        } else {
            &self.exe
        };
        path.rsplit('/').next().unwrap_or(path)
    }
}
