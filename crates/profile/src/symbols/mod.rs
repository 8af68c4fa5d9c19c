//! Addresses to functions and lines.

mod elf;
mod files;
mod names;
mod perf_map;
mod symbol_table;

use crate::merge::Frame;
use elf::Elf;
pub(crate) use files::undeleted;
pub(crate) use names::shorten;
use perf_map::PerfMap;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What an address lies in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// Path as recorded.
    pub path: String,
    /// GNU build id; empty where there is none.
    pub build_id: Vec<u8>,
    pub kind: ModuleKind,
    /// Wall clock at the start of the (first) recording, nanoseconds since 1970.
    pub recorded_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModuleKind {
    /// An ELF file.
    File,
    /// The kernel's page of code; there is no file.
    Vdso,
    /// Memory that no file is mapped to: generated code.
    Memory { pid: u32 },
}

impl Module {
    /// Last part of the path.
    pub fn short(&self) -> &str {
        match self.kind {
            ModuleKind::File => {
                let path = files::undeleted(&self.path);
                path.rsplit('/').next().unwrap_or(path)
            }
            ModuleKind::Vdso => "[vdso]",
            ModuleKind::Memory { .. } => "[generated code]",
        }
    }

    pub fn build_id_hex(&self) -> Option<String> {
        let known = self.kind == ModuleKind::File && !self.build_id.is_empty();
        known.then(|| files::hex(&self.build_id))
    }
}

/// One function at an address; of several, all but the last are inlined into the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub function: Option<Arc<str>>,
    pub file: Option<Arc<str>>,
    pub line: Option<u32>,
    pub inlined: bool,
}

/// How much is known about a module's symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Functions, inlined functions, lines.
    Debug,
    /// Functions only.
    Functions,
    /// Exported functions only: the file is stripped.
    Exported,
    /// Names of generated code.
    PerfMap,
    /// The file is not there (any more).
    NoFile,
    /// The file is there, but it is another build than the recorded one.
    OtherBuild,
    /// The file has no build id and was changed after the recording began.
    Newer,
    /// The file is there, but it cannot be read.
    Unreadable,
    /// There is no file for it and no perf map.
    NoMap,
    /// The kernel's own code.
    Vdso,
}

impl Known {
    /// True where addresses can be named from a full symbol table.
    pub fn symbols(self) -> bool {
        matches!(self, Known::Debug | Known::Functions | Known::PerfMap)
    }
}

enum Source {
    Elf(Box<Elf>),
    PerfMap(PerfMap),
    Nothing,
}

/// Opens the symbols of modules when they are first asked for, and remembers every answer.
#[derive(Default)]
pub(crate) struct Symbolizer {
    sources: HashMap<u32, (Known, Source)>,
    answers: HashMap<Frame, Arc<[Symbol]>>,
    strings: HashSet<Arc<str>>,
}

impl Symbolizer {
    /// The functions at a frame, innermost first. Empty where nothing is known.
    pub fn symbols(&mut self, modules: &[Module], frame: Frame) -> Arc<[Symbol]> {
        if let Some(answer) = self.answers.get(&frame) {
            return answer.clone();
        }
        // The call, not the instruction that it returns to.
        let address = frame.address.wrapping_sub(1);
        self.open(modules, frame.module);
        let intern = &mut self.strings;
        let answer = match self.sources.get(&frame.module) {
            Some((_, Source::Elf(elf))) => elf.symbols(address, &mut |s| interned(intern, s)),
            Some((_, Source::PerfMap(map))) => map.symbols(address, &mut |s| interned(intern, s)),
            _ => Vec::new(),
        };
        let answer: Arc<[Symbol]> = answer.into();
        self.answers.insert(frame, answer.clone());
        answer
    }

    /// The answer that [`Symbolizer::symbols`] gave; empty where it was not asked.
    pub fn answered(&self, frame: Frame) -> &[Symbol] {
        self.answers.get(&frame).map_or(&[], |a| a)
    }

    /// What is known of a module; `None` where no address of it was asked for.
    pub fn known(&self, module: u32) -> Option<Known> {
        self.sources.get(&module).map(|(known, _)| *known)
    }

    /// Opens the module's symbols if that was not tried yet.
    pub fn open(&mut self, modules: &[Module], id: u32) -> Option<Known> {
        let module = modules.get(id as usize)?;
        let (known, _) = self.sources.entry(id).or_insert_with(|| match module.kind {
            ModuleKind::Vdso => (Known::Vdso, Source::Nothing),
            ModuleKind::Memory { pid } => match PerfMap::of(pid, module.recorded_ns) {
                Some(map) => (Known::PerfMap, Source::PerfMap(map)),
                None => (Known::NoMap, Source::Nothing),
            },
            ModuleKind::File => match Elf::open(module) {
                Ok((known, elf)) => (known, Source::Elf(Box::new(elf))),
                Err(known) => (known, Source::Nothing),
            },
        });
        Some(*known)
    }

    /// Name of a role that is known by its start function only.
    pub fn role_name(&mut self, modules: &[Module], frame: Frame) -> String {
        let symbols = self.symbols(modules, frame);
        match symbols.last().and_then(|s| s.function.as_deref()) {
            Some(function) => names::role(function),
            None => {
                let module = modules
                    .get(frame.module as usize)
                    .map_or("?", Module::short);
                format!("thread at {module}+{:#x}", frame.address.wrapping_sub(1))
            }
        }
    }
}

fn interned(strings: &mut HashSet<Arc<str>>, s: String) -> Arc<str> {
    match strings.get(s.as_str()) {
        Some(known) => known.clone(),
        None => {
            let new: Arc<str> = s.into();
            strings.insert(new.clone());
            new
        }
    }
}
