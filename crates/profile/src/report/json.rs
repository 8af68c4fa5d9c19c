//! The report for programs. `docs/json.md` describes it; a change of meaning needs a new [`VERSION`].

use super::{Input, Report};
use crate::merge::{End, FlowKey, FlowSums, Frame, Role, StackId, Tally};
use crate::site::Site;
use homefree_wire::stacks;
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Value of `version`.
const VERSION: u32 = 1;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let document = Document {
        version: VERSION,
        generator: concat!("homefree ", env!("CARGO_PKG_VERSION")),
        profiles: report.inputs.iter().map(input).collect(),
        totals: totals(report),
        roles: report
            .merged
            .roles
            .iter()
            .filter(|r| used(r))
            .map(role)
            .collect(),
        modules: modules(report),
        flows: Flows(report, false),
        home_flows: Flows(report, true),
        sites: sites(report),
        warnings: report.warnings(),
    };
    serde_json::to_writer_pretty(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)
}

#[derive(serde::Serialize)]
struct Document<'a> {
    version: u32,
    generator: &'a str,
    profiles: Vec<Value>,
    totals: Value,
    roles: Vec<Value>,
    modules: Vec<Value>,
    flows: Flows<'a>,
    home_flows: Flows<'a>,
    sites: Vec<Value>,
    warnings: &'a [String],
}

fn input(i: &Input) -> Value {
    let how = match i.stacks {
        stacks::AUTO => "auto",
        stacks::FP => "fp",
        stacks::DWARF => "dwarf",
        stacks::NONE => "none",
        _ => "unknown",
    };
    json!({
        "path": i.path,
        "pid": i.pid,
        "command": i.command,
        "exe": i.exe,
        "host": i.host,
        "allocator": i.allocator,
        "labels": i.labels,
        "ended": i.ended,
        "truncated": i.truncated,
        "start_unix_ns": i.start_realtime_ns,
        "duration_ns": i.duration_ns,
        "sample_bytes": i.sample_bytes,
        "stacks": how,
        "depth": i.depth,
        "free_stacks": if i.all_free_stacks { "all" } else { "cross" },
    })
}

fn totals(report: &Report) -> Value {
    let t = report.totals();
    json!({
        "allocations": t.allocations,
        "allocated_bytes": t.allocated_bytes,
        "frees_home": t.frees_home,
        "frees_home_bytes": t.frees_home_bytes,
        "frees_remote": t.frees_remote,
        "frees_remote_bytes": t.frees_remote_bytes,
        "frees_unknown": t.frees_unknown,
        "threads": t.threads,
        "live": t.live,
        "live_bytes": t.live_bytes,
        "live_at_exit": t.live_at_exit,
        "failed": t.failed,
        "late": t.late,
        "reentrant": t.reentrant,
        "lost": t.lost,
        "untracked": t.untracked,
        "errors": t.errors.map(|e| json!({
            "allocations": e.allocations,
            "frees_home": e.frees_home,
            "frees_remote": e.frees_remote,
        })),
    })
}

/// The unknown role is listed only where something is counted in it.
fn used(r: &Role) -> bool {
    let counted = [r.allocated, r.freed_home, r.freed_remote, r.left_home];
    r.threads > 0 || r.unknown_frees > 0 || counted.iter().any(|t| t.count > 0)
}

fn role(r: &Role) -> Value {
    json!({
        "name": r.name,
        "main": r.main,
        "threads": r.threads,
        "allocations": r.allocated.count,
        "allocated_bytes": r.allocated.bytes,
        "frees_home": r.freed_home.count,
        "frees_remote": r.freed_remote.count,
        "frees_remote_bytes": r.freed_remote.bytes,
        "freed_by_others": r.left_home.count,
        "freed_by_others_bytes": r.left_home.bytes,
        "frees_unknown": r.unknown_frees,
    })
}

fn modules(report: &Report) -> Vec<Value> {
    let allocations = report.totals().allocations;
    let modules = report.merged.modules.iter().enumerate().map(|(id, m)| {
        let id = id as u32;
        let cut = report.cuts.get(&id).copied().unwrap_or(0);
        json!({
            "path": m.path,
            "build_id": m.build_id_hex(),
            "cut_share": if allocations == 0 { 0.0 } else { cut as f64 / allocations as f64 },
            "symbols": report.symbolizer.known(id).is_some_and(|k| k.symbols()),
        })
    });
    modules.collect()
}

/// The listed flows, made one at a time.
struct Flows<'a>(&'a Report, bool);

impl Serialize for Flows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for (key, sums) in self.0.listed_flows(self.1) {
            seq.serialize_element(&flow(self.0, key, sums))?;
        }
        seq.end()
    }
}

fn flow(report: &Report, key: &FlowKey, sums: &FlowSums) -> Value {
    let life = |q| {
        sums.life
            .quantile(&report.merged.clocks, q)
            .map(|ns| ns.round() as u64)
    };
    json!({
        "count": sums.freed.count,
        "count_error": sums.freed.error(),
        "samples": if sums.samples > 0 { Some(sums.samples) } else { None },
        "bytes": sums.freed.bytes,
        "lifetimes": { "median_ns": life(0.5), "p99_ns": life(0.99) },
        "alloc_role": report.role(key.alloc_role),
        "free_role": report.role(key.free_role),
        "alloc_site": site(report, report.site(key.alloc_stack)),
        "free_site": site(report, report.site(key.free_stack)),
        "alloc_stack": stack(report, key.alloc_stack),
        "alloc_stack_end": end(report, key.alloc_stack),
        "free_stack": stack(report, key.free_stack),
        "free_stack_end": end(report, key.free_stack),
    })
}

fn end(report: &Report, stack: StackId) -> &'static str {
    match report.merged.stacks.end(stack).map(|(end, _)| end) {
        None => "none",
        Some(End::Whole) => "whole",
        Some(End::Cut) => "cut",
        Some(End::Deep) => "depth",
        Some(End::Signal) => "signal",
        Some(End::Damaged) => "damaged",
    }
}

fn module_path(report: &Report, id: u32) -> &str {
    report.module(id).map_or("", |m| m.path.as_str())
}

fn stack(report: &Report, stack: StackId) -> Vec<Value> {
    report
        .merged
        .stacks
        .frames(stack)
        .flat_map(|f| frames(report, f))
        .collect()
}

fn frames(report: &Report, frame: Frame) -> Vec<Value> {
    let module = module_path(report, frame.module);
    let offset = frame.address.wrapping_sub(1);
    let symbols = report.symbolizer.answered(frame);
    if symbols.is_empty() {
        return vec![json!({
            "function": null, "file": null, "line": null,
            "module": module, "offset": offset, "inlined": false,
        })];
    }
    let frames = symbols.iter().map(|s| {
        json!({
            "function": s.function.as_deref(), "file": s.file.as_deref(), "line": s.line,
            "module": module, "offset": offset, "inlined": s.inlined,
        })
    });
    frames.collect()
}

fn site(report: &Report, site: &Site) -> Value {
    match site {
        Site::None => Value::Null,
        Site::Function {
            function,
            file,
            line,
            module,
        } => json!({
            "function": **function, "file": file.as_deref(), "line": line,
            "module": module_path(report, *module), "offset": null,
        }),
        Site::Address { module, address } => json!({
            "function": null, "file": null, "line": null,
            "module": module_path(report, *module), "offset": address,
        }),
    }
}

/// All allocation sites: what was allocated there, and where it was freed.
fn sites(report: &Report) -> Vec<Value> {
    #[derive(Default)]
    struct Sums {
        allocated: Tally,
        home: Tally,
        remote: Tally,
    }
    let mut sums: BTreeMap<&Site, Sums> = BTreeMap::new();
    for ((_, stack), s) in &report.merged.sites {
        let site = sums.entry(report.site(*stack)).or_default();
        site.allocated.add(s.allocated);
        site.home.add(s.home);
    }
    for (key, flow) in report.merged.flows.iter().filter(|(k, _)| !k.home) {
        let site = sums.entry(report.site(key.alloc_stack)).or_default();
        site.remote.add(flow.freed);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, s)| std::cmp::Reverse((s.remote.count, s.allocated.bytes)));
    let sites = sums.into_iter().map(|(at, s)| {
        let live = |f: fn(&Tally) -> u64| {
            f(&s.allocated).saturating_sub(f(&s.home).saturating_add(f(&s.remote)))
        };
        json!({
            "site": site(report, at),
            "allocations": s.allocated.count,
            "allocations_error": s.allocated.error(),
            "allocated_bytes": s.allocated.bytes,
            "frees_home": s.home.count,
            "frees_remote": s.remote.count,
            "frees_remote_error": s.remote.error(),
            "frees_remote_bytes": s.remote.bytes,
            "live": live(|t| t.count),
            "live_bytes": live(|t| t.bytes),
        })
    });
    sites.collect()
}
