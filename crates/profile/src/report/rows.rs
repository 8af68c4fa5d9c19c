//! Filtering, grouping, ranking.

use super::{By, DEFAULT_TOP, Format, Report};
use crate::histogram::Lifetimes;
use crate::merge::{FlowKey, FlowSums, RoleId, Tally};
use crate::site::Site;
use std::collections::HashMap;

/// Rows shown even when they hold next to nothing.
const HANDFUL: usize = 5;

/// What a row stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    Flow {
        alloc_role: RoleId,
        alloc: Site,
        free_role: RoleId,
        free: Site,
    },
    Alloc(Site),
    Free(Site),
    Role(RoleId, RoleId),
}

/// One row of the table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub key: Key,
    pub freed: Tally,
    pub life: Lifetimes,
    /// Allocated at the site, and freed at home ([`Key::Alloc`] only).
    pub allocated: Tally,
    pub home: Tally,
    /// The flows in it, most frees first.
    pub flows: Vec<FlowKey>,
}

impl Row {
    fn new(key: Key) -> Self {
        Row {
            key,
            freed: Tally::default(),
            life: Lifetimes::default(),
            allocated: Tally::default(),
            home: Tally::default(),
            flows: Vec::new(),
        }
    }
}

impl Report {
    /// Makes the rows of the text report.
    pub(super) fn rank(&mut self) {
        if self.options.format == Format::Json {
            self.rows = Vec::new();
            return;
        }
        let mut rows: HashMap<Key, Row> = HashMap::new();
        for (key, sums) in self.matching_flows(false) {
            let row_key = self.row_key(key);
            let row = rows
                .entry(row_key.clone())
                .or_insert_with(|| Row::new(row_key));
            row.freed.add(sums.freed);
            row.life.merge(&sums.life);
            row.flows.push(*key);
        }
        if self.options.by == By::AllocSite {
            for ((role, stack), sums) in &self.merged.sites {
                let site = self.site(*stack);
                if !self.thread_matches(&[*role]) || !self.site_matches(&[site]) {
                    continue;
                }
                let key = Key::Alloc(site.clone());
                let row = rows.entry(key.clone()).or_insert_with(|| Row::new(key));
                row.allocated.add(sums.allocated);
                row.home.add(sums.home);
            }
        }
        let mut rows: Vec<Row> = rows.into_values().collect();
        let min = self.options.min_bytes;
        rows.retain(|r| r.freed.bytes.max(r.allocated.bytes) >= min);
        for row in &mut rows {
            let count = |k: &FlowKey| self.merged.flows.get(k).map_or(0, |s| s.freed.count);
            row.flows.sort_by_key(|k| (std::cmp::Reverse(count(k)), *k));
        }
        // Most remote frees first; ties by bytes, then by name, so that the order never changes.
        let rank = |r: &Row| std::cmp::Reverse((r.freed.count, r.freed.bytes, r.allocated.bytes));
        rows.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.key.cmp(&b.key)));
        self.matched = rows.len();
        let shown = self
            .options
            .top
            .unwrap_or_else(|| self.worth_showing(&rows));
        let hidden = rows.iter().skip(shown).map(|r| r.freed.count);
        self.hidden_frees = hidden.fold(0, u64::saturating_add);
        rows.truncate(shown);
        self.rows = rows;
    }

    /// At most [`DEFAULT_TOP`], and past a handful none that is next to nothing.
    fn worth_showing(&self, rows: &[Row]) -> usize {
        let least = self.totals.frees_remote / 1000;
        let worth = rows.iter().take_while(|r| r.freed.count > least).count();
        worth.clamp(HANDFUL, DEFAULT_TOP)
    }

    fn row_key(&self, key: &FlowKey) -> Key {
        match self.options.by {
            By::Flow => Key::Flow {
                alloc_role: key.alloc_role,
                alloc: self.site(key.alloc_stack).clone(),
                free_role: key.free_role,
                free: self.site(key.free_stack).clone(),
            },
            By::AllocSite => Key::Alloc(self.site(key.alloc_stack).clone()),
            By::FreeSite => Key::Free(self.site(key.free_stack).clone()),
            By::Role => Key::Role(key.alloc_role, key.free_role),
        }
    }

    /// Flows that pass the filters, in the order of their keys.
    fn matching_flows(&self, home: bool) -> impl Iterator<Item = (&FlowKey, &FlowSums)> {
        self.merged.flows.iter().filter(move |(key, _)| {
            key.home == home
                && self.thread_matches(&[key.alloc_role, key.free_role])
                && self.site_matches(&[self.site(key.alloc_stack), self.site(key.free_stack)])
        })
    }

    /// Flows for JSON: filtered, ranked, at most as many as asked for.
    pub(super) fn listed_flows(&self, home: bool) -> impl Iterator<Item = (&FlowKey, &FlowSums)> {
        let mut flows: Vec<_> = self
            .matching_flows(home)
            .filter(|(_, sums)| sums.freed.bytes >= self.options.min_bytes)
            .collect();
        flows.sort_by_key(|(key, sums)| {
            (
                std::cmp::Reverse((sums.freed.count, sums.freed.bytes)),
                **key,
            )
        });
        flows
            .into_iter()
            .take(self.options.top.unwrap_or(usize::MAX))
    }

    pub(super) fn thread_matches(&self, roles: &[RoleId]) -> bool {
        let Some(wanted) = &self.options.thread else {
            return true;
        };
        roles.iter().any(|r| wanted.is_match(self.role(*r)))
    }

    fn site_matches(&self, sites: &[&Site]) -> bool {
        let Some(wanted) = &self.options.site else {
            return true;
        };
        sites.iter().any(|s| wanted.is_match(&self.site_line(s)))
    }

    /// `function file:line module` of a site.
    fn site_line(&self, site: &Site) -> String {
        let path = |module: &u32| self.module(*module).map_or("", |m| m.path.as_str());
        match site {
            Site::None => String::new(),
            Site::Function {
                function,
                file,
                line,
                module,
            } => {
                let file = file.as_deref().unwrap_or("");
                let line = line.map(|l| l.to_string()).unwrap_or_default();
                format!("{function} {file}:{line} {}", path(module))
            }
            Site::Address { module, address } => format!("{}+{address:#x}", path(module)),
        }
    }
}
