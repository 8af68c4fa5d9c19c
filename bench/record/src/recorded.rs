//! The counters of a profile, summed straight from the file, and how deep its stacks are.

use anyhow::{Context, Result, anyhow, bail};
use homefree_wire as wire;
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;
use wire::{BankValue, FlowHeadValue, HeaderValue, NodeValue, PageHeadValue, SiteValue};

/// Sums over a profile.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Recorded {
    /// `HOMEFREE_STACKS` as the recorder understood it.
    pub stacks: &'static str,
    /// Allocations.
    pub allocations: u64,
    /// Frees by the allocating thread.
    pub frees_home: u64,
    /// Frees by another thread.
    pub frees_remote: u64,
    /// Frees of blocks with no recorded allocation.
    pub frees_unknown: u64,
    /// Events that had no room in the file, calls passed through, allocations not tracked.
    pub lost: u64,
    /// Threads seen.
    pub threads: u64,
    /// Mean number of frames of an allocation's stack.
    pub frames: f64,
    /// Share of allocations whose stack was cut, 0 to 1.
    pub cut: f64,
    /// Distinct (role, stack) pairs with an allocation.
    pub sites: u64,
    /// Distinct flows.
    pub flows: u64,
}

impl Recorded {
    /// All events counted.
    pub fn events(&self) -> u64 {
        self.allocations + self.frees_home + self.frees_remote + self.frees_unknown
    }

    /// All counts in words.
    pub fn counts(&self) -> String {
        format!(
            "{} allocations, frees: {} home, {} remote, {} unknown",
            self.allocations, self.frees_home, self.frees_remote, self.frees_unknown
        )
    }

    /// Reads the profile at `path`.
    ///
    /// # Errors
    /// It cannot be read, is no profile, or the program's end was not recorded in order.
    pub fn read(path: &Path) -> Result<Self> {
        let file = std::fs::read(path).with_context(|| path.display().to_string())?;
        let header = wire::Header::check(&file).map_err(|e| anyhow!("{}: {e}", path.display()))?;
        if header.state != wire::state::ENDED {
            bail!("{}: its end was not recorded", path.display());
        }
        Ok(Self::sum(&file, &header))
    }

    fn sum(file: &[u8], header: &HeaderValue) -> Self {
        let mut sums = Self {
            stacks: match header.stacks {
                wire::stacks::AUTO => "auto",
                wire::stacks::FP => "fp",
                wire::stacks::DWARF => "dwarf",
                wire::stacks::NONE => "none",
                _ => "unknown",
            },
            threads: header.threads,
            ..Self::default()
        };
        let mut nodes = HashMap::new();
        let mut sites = Vec::new();
        let pages = usize::try_from(header.pages).unwrap_or(usize::MAX);
        for page in file.chunks_exact(wire::PAGE).take(pages).skip(1) {
            let Some(head) = PageHeadValue::decode(page).filter(|h| h.magic == wire::PAGE_MAGIC)
            else {
                continue;
            };
            match head.kind {
                wire::kind::NODES => {
                    let first = head.seq * wire::NODES as u32;
                    let slots = page.chunks_exact(wire::PAGE / wire::NODES).enumerate();
                    nodes.extend(slots.skip(1).filter_map(|(slot, entry)| {
                        let node = NodeValue::decode(entry)?;
                        (node.pc != 0).then_some((first + slot as u32, node))
                    }));
                }
                wire::kind::BANKS => {
                    for entry in page.chunks_exact(wire::PAGE / wire::BANKS).skip(1) {
                        let bank = BankValue::decode(entry).unwrap_or_default();
                        sums.frees_unknown += bank.unknown_frees;
                        sums.allocations += bank.lost_allocs;
                        sums.lost += bank.lost + bank.untracked;
                    }
                }
                wire::kind::SITES => {
                    for entry in page.chunks_exact(wire::PAGE / wire::SITES).skip(1) {
                        let site = SiteValue::decode(entry).unwrap_or_default();
                        if site.node != 0 {
                            sums.sites += 1;
                            sums.allocations += site.allocs;
                            sums.frees_home += site.home_frees;
                            sites.push(site);
                        }
                    }
                }
                wire::kind::FLOWS => {
                    for entry in page[wire::FLOWS_AT..].chunks_exact(size_of::<wire::Flow>()) {
                        let flow = FlowHeadValue::decode(entry).unwrap_or_default();
                        if flow.alloc_node != 0 && flow.flags & wire::flow::HOME == 0 {
                            sums.flows += 1;
                            sums.frees_remote += flow.count;
                        }
                    }
                }
                _ => {}
            }
        }
        let (mut frames, mut cut, mut weight) = (0.0, 0.0, 0.0);
        for site in &sites {
            let (depth, flags) = walk(&nodes, site.node);
            let allocs = site.allocs as f64;
            weight += allocs;
            frames += allocs * f64::from(depth);
            if flags & wire::node::CUT != 0 {
                cut += allocs;
            }
        }
        if weight > 0.0 {
            sums.frames = frames / weight;
            sums.cut = cut / weight;
        }
        sums
    }
}

/// Depth of the stack that `node` names, and the flags of its outermost frame.
fn walk(nodes: &HashMap<u32, NodeValue>, mut node: u32) -> (u32, u64) {
    let (mut depth, mut flags) = (0, 0);
    while let Some(value) = nodes.get(&node) {
        depth += 1;
        flags = value.pc & !wire::node::PC_MASK;
        node = value.parent;
        if depth > 1024 {
            break; // a damaged file may have a ring
        }
    }
    (depth, flags)
}
