//! What is run.

use clap::ValueEnum;
use serde::Serialize;

/// A workload of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// One thread, a std::map and an unordered_map, 20 to 30 frames
    Maps,
    /// Four workers build and drop trees, joined in phases
    ForkJoin,
    /// One producer, one consumer: every block freed remotely
    #[value(name = "pass-1-1")]
    #[serde(rename = "pass-1-1")]
    Pass1,
    /// Two producers, two consumers
    #[value(name = "pass-2-2")]
    #[serde(rename = "pass-2-2")]
    Pass2,
    /// malloc and free of one site, 30 frames, the stack standing still
    PairSame,
    /// malloc and free, four sites in turn, 5 frames
    PairSites,
    /// malloc and free, 30 frames, the innermost four left and entered anew for each pair
    PairMoving,
    /// redis-server under redis-benchmark
    Redis,
    /// redis-server --io-threads 2 under redis-benchmark
    #[value(name = "redis-io-2")]
    #[serde(rename = "redis-io-2")]
    RedisIo2,
}

/// How the program was compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Build {
    /// -O2 -fno-omit-frame-pointer
    Fp,
    /// -O2 -fomit-frame-pointer
    Nofp,
    /// As the distribution built it
    #[value(skip)]
    Packaged,
}

impl Build {
    /// Its name in tables and file names.
    pub fn name(self) -> &'static str {
        match self {
            Build::Fp => "fp",
            Build::Nofp => "nofp",
            Build::Packaged => "packaged",
        }
    }
}

impl Workload {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|v| v.get_name().to_owned())
            .unwrap_or_default()
    }

    /// One line for the table's head.
    pub fn about(self) -> String {
        self.to_possible_value()
            .and_then(|v| v.get_help().map(ToString::to_string))
            .unwrap_or_default()
    }

    /// A server that is measured from outside instead of a program of ours.
    pub fn is_redis(&self) -> bool {
        matches!(self, Workload::Redis | Workload::RedisIo2)
    }

    /// The builds that exist of our own programs.
    pub fn builds(self) -> &'static [Build] {
        if self.is_redis() {
            &[]
        } else {
            &[Build::Fp, Build::Nofp]
        }
    }

    /// Program and its arguments after the number of events; `None` for redis.
    pub fn program(self) -> Option<(&'static str, &'static [&'static str])> {
        Some(match self {
            Workload::Maps => ("maps", &[]),
            Workload::ForkJoin => ("fork_join", &[]),
            Workload::Pass1 => ("pass_on", &["1"]),
            Workload::Pass2 => ("pass_on", &["2"]),
            Workload::PairSame => ("pair", &["same"]),
            Workload::PairSites => ("pair", &["sites"]),
            Workload::PairMoving => ("pair", &["moving"]),
            Workload::Redis | Workload::RedisIo2 => return None,
        })
    }
}
