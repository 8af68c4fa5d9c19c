//! Several profiles to one set of tables, keyed by what is the same in all of them.

use crate::histogram::{Clocks, Lifetimes};
use crate::maps::Maps;
use crate::open::Profile;
use crate::symbols::{Module, ModuleKind, Symbolizer};
use homefree_wire::records::role_kind;
use homefree_wire::{bank, flow, node};
use std::collections::{BTreeMap, HashMap};

/// Frames followed from a node; more than any recorder keeps, and an end to cycles in damaged files.
const MAX_FRAMES: usize = 1024;

/// A place in a module: `address` is a return address relative to the ELF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub module: u32,
    pub address: u64,
}

/// How a stack ends at its outermost frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum End {
    /// At the thread's first frame, as far as can be told.
    #[default]
    Whole,
    /// It goes on, but could not be followed.
    Cut,
    /// It goes on past the depth limit.
    Deep,
    /// In a signal frame.
    Signal,
    /// Its nodes are damaged.
    Damaged,
}

/// Number of a stack; 0 is the empty one.
pub(crate) type StackId = u32;
/// Number of a role; 0 is the unknown one.
pub(crate) type RoleId = u32;

/// One frame and the stack that called it.
#[derive(Clone, Copy, Debug)]
struct Link {
    frame: Frame,
    caller: StackId,
    end: End,
}

#[derive(Debug, Default)]
pub(crate) struct Stacks {
    links: Vec<Link>,
    index: HashMap<(StackId, Frame, End), StackId>,
}

impl Stacks {
    fn push(&mut self, caller: StackId, frame: Frame, end: End) -> StackId {
        *self.index.entry((caller, frame, end)).or_insert_with(|| {
            self.links.push(Link { frame, caller, end });
            self.links.len() as StackId
        })
    }

    /// Frames from the innermost outwards.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = Frame> + '_ {
        let mut at = stack;
        std::iter::from_fn(move || {
            let link = self.links.get((at as usize).checked_sub(1)?)?;
            at = link.caller;
            Some(link.frame)
        })
    }

    /// How the stack ends, and its outermost frame.
    pub fn end(&self, stack: StackId) -> Option<(End, Frame)> {
        let mut link = self.links.get((stack as usize).checked_sub(1)?)?;
        while let Some(caller) = (link.caller as usize).checked_sub(1) {
            link = self.links.get(caller)?;
        }
        Some((link.end, link.frame))
    }
}

/// A count with its estimated variance (zero without sampling).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub count: u64,
    pub bytes: u64,
    pub variance: f64,
}

impl Tally {
    pub fn new(count: u64, bytes: u64, variance_bits: u64) -> Self {
        let variance = f64::from_bits(variance_bits);
        Tally {
            count,
            bytes,
            variance: if variance.is_finite() && variance > 0.0 {
                variance
            } else {
                0.0
            },
        }
    }

    pub fn add(&mut self, other: Tally) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.variance += other.variance;
    }

    /// Half of the 95 % interval of the count; `None` where it is exact.
    pub fn error(&self) -> Option<f64> {
        (self.variance > 0.0).then(|| 1.96 * self.variance.sqrt())
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Role {
    pub name: String,
    pub main: bool,
    pub threads: u64,
    pub allocated: Tally,
    pub freed_home: Tally,
    /// Freed by its threads, allocated by others.
    pub freed_remote: Tally,
    /// Allocated by its threads, freed by others.
    pub left_home: Tally,
    pub unknown_frees: u64,
}

/// Counts of one allocation site in one role.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SiteSums {
    pub allocated: Tally,
    pub home: Tally,
}

/// What makes two frees the same flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FlowKey {
    pub alloc_role: RoleId,
    pub alloc_stack: StackId,
    pub free_role: RoleId,
    pub free_stack: StackId,
    pub home: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FlowSums {
    pub freed: Tally,
    pub samples: u64,
    pub life: Lifetimes,
}

/// Events that are counted but stand at no site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asides {
    pub unknown_frees: u64,
    pub reentrant: u64,
    pub untracked: u64,
    pub lost: u64,
    pub lost_allocs: u64,
    pub lost_bytes: u64,
    pub lost_remote: u64,
    pub late: u64,
    pub failed: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Merged {
    pub modules: Vec<Module>,
    pub stacks: Stacks,
    pub roles: Vec<Role>,
    pub sites: BTreeMap<(RoleId, StackId), SiteSums>,
    /// Ordered, so that sums of fractions are the same in every run.
    pub flows: BTreeMap<FlowKey, FlowSums>,
    pub asides: Asides,
    pub threads: u64,
    pub clocks: Clocks,
    module_ids: HashMap<(Vec<u8>, String), u32>,
    role_ids: HashMap<(bool, String), RoleId>,
}

impl Merged {
    pub fn new() -> Self {
        Merged {
            roles: vec![Role {
                name: "(unknown)".into(),
                ..Role::default()
            }],
            ..Merged::default()
        }
    }

    /// Adds one profile. `symbolizer` names the roles that have only a start function.
    pub fn add(&mut self, profile: &Profile, symbolizer: &mut Symbolizer) {
        let modules = self.add_modules(profile);
        let mut nodes = Nodes {
            profile,
            maps: Maps::new(&profile.tables.modules),
            modules,
            known: HashMap::new(),
        };
        let roles = self.add_roles(profile, &nodes, symbolizer);
        let role = |id: u32| roles.get(&id).copied().unwrap_or(0);
        let bank_role =
            |id: u32| -> RoleId { profile.tables.banks.get(&id).map_or(0, |b| role(b.role)) };
        self.threads = self.threads.saturating_add(profile.header.threads);

        for bank in profile.tables.banks.values() {
            let sums = &mut self.roles[role(bank.role) as usize];
            if bank.state == bank::LIVE {
                sums.threads = sums.threads.saturating_add(1);
            }
            add(&mut sums.unknown_frees, bank.unknown_frees);
            let a = &mut self.asides;
            for (sum, value) in [
                (&mut a.unknown_frees, bank.unknown_frees),
                (&mut a.reentrant, bank.reentrant),
                (&mut a.untracked, bank.untracked),
                (&mut a.lost, bank.lost),
                (&mut a.lost_allocs, bank.lost_allocs),
                (&mut a.lost_bytes, bank.lost_bytes),
                (&mut a.lost_remote, bank.lost_remote),
                (&mut a.late, bank.late),
                (&mut a.failed, bank.failed),
            ] {
                add(sum, value);
            }
        }

        for (bank, site) in &profile.tables.sites {
            let allocated = Tally::new(site.allocs, site.bytes, site.var_allocs);
            let home = Tally::new(site.home_frees, site.home_bytes, site.var_home);
            if site.allocs == 0 && site.home_frees == 0 {
                continue;
            }
            let role = bank_role(*bank);
            let stack = nodes.stack(site.node, &mut self.stacks);
            let sums = self.sites.entry((role, stack)).or_default();
            sums.allocated.add(allocated);
            sums.home.add(home);
            self.roles[role as usize].allocated.add(allocated);
            self.roles[role as usize].freed_home.add(home);
        }

        let clock = profile.tick_ns().map(|tick| self.clocks.intern(tick));
        for (bank, flow) in &profile.tables.flows {
            let head = &flow.head;
            if head.count == 0 {
                continue;
            }
            let freed = Tally::new(head.count, head.bytes, head.var);
            let key = FlowKey {
                alloc_role: role(head.alloc_role),
                alloc_stack: nodes.stack(head.alloc_node, &mut self.stacks),
                free_role: bank_role(*bank),
                free_stack: nodes.stack(head.free_node, &mut self.stacks),
                home: head.flags & flow::HOME != 0,
            };
            let sums = self.flows.entry(key).or_default();
            sums.freed.add(freed);
            add(&mut sums.samples, head.samples);
            if let Some(clock) = clock {
                sums.life.add(clock, &flow.life, head.count);
            }
            if !key.home {
                self.roles[key.free_role as usize].freed_remote.add(freed);
                self.roles[key.alloc_role as usize].left_home.add(freed);
            }
        }
    }

    /// Interns the profile's modules; the result is in their order, then one for addresses in none.
    fn add_modules(&mut self, profile: &Profile) -> Vec<u32> {
        let tables = &profile.tables;
        let files = tables.modules.iter().map(|m| {
            let path = if m.path.is_empty() {
                &tables.exe
            } else {
                &m.path
            };
            let kind = if path.starts_with("linux-vdso")
                || path.starts_with("linux-gate")
                || path == "[vdso]"
            {
                ModuleKind::Vdso
            } else {
                ModuleKind::File
            };
            Module {
                path: path.clone(),
                build_id: m.build_id.clone(),
                kind,
                recorded_ns: profile.header.start_realtime_ns,
            }
        });
        let memory = Module {
            path: format!("memory of process {}", profile.header.pid),
            build_id: profile.header.id.to_le_bytes().to_vec(),
            kind: ModuleKind::Memory {
                pid: profile.header.pid,
            },
            recorded_ns: profile.header.start_realtime_ns,
        };
        let all: Vec<Module> = files.chain([memory]).collect();
        all.into_iter().map(|m| self.intern_module(m)).collect()
    }

    fn intern_module(&mut self, module: Module) -> u32 {
        let path = if module.build_id.is_empty() {
            module.path.clone()
        } else {
            String::new()
        };
        let key = (module.build_id.clone(), path);
        if let Some(&id) = self.module_ids.get(&key) {
            let known = &mut self.modules[id as usize];
            known.recorded_ns = known.recorded_ns.min(module.recorded_ns);
            return id;
        }
        let id = self.modules.len() as u32;
        self.module_ids.insert(key, id);
        self.modules.push(module);
        id
    }

    fn add_roles(
        &mut self,
        profile: &Profile,
        nodes: &Nodes<'_>,
        symbolizer: &mut Symbolizer,
    ) -> HashMap<u32, RoleId> {
        let mut ids: Vec<_> = profile.tables.roles.iter().collect();
        ids.sort_by_key(|(id, _)| **id);
        let mut roles = HashMap::new();
        for (&id, role) in ids {
            let name = match role.kind {
                role_kind::START => {
                    // A function's first address, not a return address: hence the 1.
                    let start = role.start.saturating_add(1);
                    let frame = nodes.frame(start, profile.header.nodes);
                    symbolizer.role_name(&self.modules, frame)
                }
                role_kind::OTHER => "(other)".to_owned(),
                _ if role.name.is_empty() => "(unnamed)".to_owned(),
                _ => role.name.clone(),
            };
            let main = role.kind == role_kind::MAIN;
            let next = self.roles.len() as RoleId;
            let merged = *self.role_ids.entry((main, name.clone())).or_insert(next);
            if merged == next {
                self.roles.push(Role {
                    name,
                    main,
                    ..Role::default()
                });
            }
            add(&mut self.roles[merged as usize].threads, role.ended);
            roles.insert(id, merged);
        }
        roles
    }

    /// Where a main thread and others have the same name, says which is which.
    pub fn tell_roles_apart(&mut self) {
        for i in 0..self.roles.len() {
            let role = &self.roles[i];
            let twin = |r: &Role| r.name == role.name && !r.main;
            if role.main && self.roles.iter().any(twin) {
                self.roles[i].name.push_str(" (main)");
            }
        }
    }
}

fn add(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}

/// One profile's nodes on their way to merged stacks.
struct Nodes<'a> {
    profile: &'a Profile,
    maps: Maps<'a>,
    /// Merged module ids in the profile's order; the last is for addresses in none.
    modules: Vec<u32>,
    known: HashMap<u32, StackId>,
}

impl Nodes<'_> {
    fn frame(&self, pc: u64, node: u64) -> Frame {
        let found = self.maps.find(pc.saturating_sub(1), node);
        let (at, bias) = match found {
            Some(at) => (at, self.profile.tables.modules[at].bias),
            None => (self.modules.len() - 1, 0),
        };
        Frame {
            module: self.modules[at],
            address: pc.wrapping_sub(bias),
        }
    }

    fn stack(&mut self, node: u32, stacks: &mut Stacks) -> StackId {
        let mut chain = Vec::new();
        let (mut at, mut caller, mut end) = (node, 0, End::Whole);
        while at != 0 {
            if let Some(&known) = self.known.get(&at) {
                caller = known;
                break;
            }
            let Some(value) = self.profile.tables.node(at) else {
                end = End::Damaged;
                break;
            };
            if chain.len() == MAX_FRAMES {
                end = End::Damaged;
                break;
            }
            chain.push((at, value.pc));
            at = value.parent;
        }
        for (at, pc) in chain.into_iter().rev() {
            if caller == 0 && end == End::Whole {
                end = [
                    (node::CUT, End::Cut),
                    (node::DEEP, End::Deep),
                    (node::SIGNAL, End::Signal),
                ]
                .into_iter()
                .find_map(|(flag, end)| (pc & flag != 0).then_some(end))
                .unwrap_or_default();
            }
            let frame = self.frame(pc & node::PC_MASK, u64::from(at));
            // Only the outermost frame says how the stack ends.
            let own = if caller == 0 { end } else { End::Whole };
            caller = stacks.push(caller, frame, own);
            self.known.insert(at, caller);
        }
        caller
    }
}
