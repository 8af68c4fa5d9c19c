//! The JSON report, as tests ask about it.

use serde_json::Value;

/// A parsed report.
pub struct Report {
    pub json: Value,
}

/// A flow of the report. Stacks hold function names, innermost first.
#[derive(Clone, Debug)]
pub struct Flow {
    pub count: u64,
    pub bytes: u64,
    pub alloc_role: String,
    pub free_role: String,
    pub alloc_stack: Vec<String>,
    pub free_stack: Vec<String>,
}

impl Report {
    #[track_caller]
    pub fn parse(text: &[u8]) -> Self {
        let json = serde_json::from_slice(text)
            .unwrap_or_else(|e| panic!("not JSON ({e}):\n{}", String::from_utf8_lossy(text)));
        Self { json }
    }

    /// `totals.<name>`.
    #[track_caller]
    pub fn total(&self, name: &str) -> u64 {
        let value = &self.json["totals"][name];
        value
            .as_u64()
            .unwrap_or_else(|| panic!("totals.{name} is {value} in\n{:#}", self.json["totals"]))
    }

    #[track_caller]
    pub fn flows(&self) -> Vec<Flow> {
        let flows = self.json["flows"].as_array().expect("flows is an array");
        flows.iter().map(Flow::parse).collect()
    }

    /// Flows from a stack with function `alloc` to a stack with function `free`.
    #[track_caller]
    pub fn between(&self, alloc: &str, free: &str) -> Vec<Flow> {
        let mut flows = self.flows();
        flows.retain(|f| has(&f.alloc_stack, alloc) && has(&f.free_stack, free));
        flows
    }

    /// How many frees go from function `alloc` to function `free`.
    #[track_caller]
    pub fn count_between(&self, alloc: &str, free: &str) -> u64 {
        self.between(alloc, free).iter().map(|f| f.count).sum()
    }

    /// Allocations, frees at home and remote frees of the blocks whose site is function `name`.
    #[track_caller]
    pub fn at_site(&self, name: &str) -> [u64; 3] {
        self.sums_at(name, ["allocations", "frees_home", "frees_remote"])
    }

    /// Blocks and bytes of site `name` that are live.
    #[track_caller]
    pub fn live_at(&self, name: &str) -> [u64; 2] {
        self.sums_at(name, ["live", "live_bytes"])
    }

    #[track_caller]
    fn sums_at<const N: usize>(&self, name: &str, fields: [&str; N]) -> [u64; N] {
        let sites = self.json["sites"].as_array().expect("sites is an array");
        let mut sums = [0; N];
        for site in sites {
            if has(&[frame_name(&site["site"])], name) {
                for (sum, field) in sums.iter_mut().zip(fields) {
                    *sum += site[field]
                        .as_u64()
                        .unwrap_or_else(|| panic!("{field}: {site}"));
                }
            }
        }
        sums
    }

    /// Roles as they free what `alloc` allocated, sorted, each once.
    #[track_caller]
    pub fn free_roles(&self, alloc: &str) -> Vec<String> {
        let mut roles: Vec<_> = self
            .flows()
            .into_iter()
            .filter(|f| has(&f.alloc_stack, alloc))
            .map(|f| f.free_role)
            .collect();
        roles.sort();
        roles.dedup();
        roles
    }
}

/// Whether a stack has a frame of this function, whatever its path and arguments.
fn has(stack: &[String], function: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    stack.iter().any(|frame| {
        frame.match_indices(function).any(|(at, _)| {
            !frame[..at].ends_with(word) && !frame[at + function.len()..].starts_with(word)
        })
    })
}

impl Flow {
    #[track_caller]
    fn parse(flow: &Value) -> Self {
        let number = |name: &str| {
            flow[name]
                .as_u64()
                .unwrap_or_else(|| panic!("{name}: {flow}"))
        };
        let text = |name: &str| {
            flow[name]
                .as_str()
                .unwrap_or_else(|| panic!("{name}: {flow}"))
        };
        let stack = |name: &str| {
            let frames = flow[name]
                .as_array()
                .unwrap_or_else(|| panic!("{name}: {flow}"));
            frames.iter().map(frame_name).collect()
        };
        Self {
            count: number("count"),
            bytes: number("bytes"),
            alloc_role: text("alloc_role").to_owned(),
            free_role: text("free_role").to_owned(),
            alloc_stack: stack("alloc_stack"),
            free_stack: stack("free_stack"),
        }
    }

    /// Position of a function in the allocation stack.
    pub fn alloc_position(&self, function: &str) -> Option<usize> {
        self.alloc_stack
            .iter()
            .position(|f| has(std::slice::from_ref(f), function))
    }
}

fn frame_name(frame: &Value) -> String {
    frame["function"].as_str().unwrap_or("").to_owned()
}
