//! The account as JSON: `docs/run.md` describes it.

use super::account::{Process, Report};
use crate::launch::Ending;
use serde_json::{Map, Value, json};

/// The shape's version; it changes when a field's meaning does.
const VERSION: u32 = 1;

/// One object, on one line.
pub fn write(report: &Report) -> String {
    let ending = match report.ending {
        Some(Ending::Exit(status)) => json!({ "exit": status }),
        Some(Ending::Signal(signal)) => json!({ "signal": signal }),
        None => Value::Null,
    };
    let all = json!({
        "version": VERSION,
        "unit": "usable bytes",
        "seconds": report.seconds,
        "ending": ending,
        "process": report.main.as_ref().map(process),
        "others": report.others.iter().map(process).collect::<Vec<_>>(),
    });
    format!("{all}\n")
}

fn process(process: &Process) -> Value {
    let figures = &process.figures;
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| out.insert(name.into(), value);
    put("pid", json!(figures.pid));
    put("parent", json!(figures.ppid));
    put("command", json!(process.command));
    put("allocator", json!(process.allocator));
    put("exact", json!(process.ended()));
    put("current", json!(figures.current));
    put("current_error", json!(figures.error));
    put("peak", json!(figures.peak));
    put("peak_error", json!(figures.peak_error));
    if process.forked() {
        put("inherited", json!(figures.inherited));
    }
    if process.ended() {
        put("allocated", json!(figures.allocated));
        put("freed", json!(figures.freed));
        if process.counts() {
            put("allocations", json!(figures.allocations));
            put("frees", json!(figures.frees));
        }
    }
    if figures.limit != 0 {
        put("limit", json!(figures.limit));
        put("reserve", json!(figures.reserve));
        put("refused", json!(figures.refused));
    }
    if process.memory.reserved != 0 {
        put("reserved", json!(process.memory.reserved));
        put("resident_anon", json!(process.memory.resident));
    }
    let roles: Vec<_> = process
        .roles
        .iter()
        .map(|role| {
            json!({
                "role": role.name,
                "threads": role.threads,
                "allocated": role.allocated,
                "freed": role.freed,
                "sent": role.sent(),
                "received": role.received(),
            })
        })
        .collect();
    put("roles", json!(roles));
    Value::Object(out)
}
