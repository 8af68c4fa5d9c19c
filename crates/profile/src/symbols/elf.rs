//! Symbols of an ELF file: DWARF read lazily, symbol tables as the fallback.

use super::files::{self, Found};
use super::{Known, Module, Symbol, names};
use crate::records::text;
use addr2line::Loader;
use object::{Object, ObjectSymbol, ReadCache};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

pub(super) struct Elf {
    /// Where there is debug information: its file and the one that it shares with others.
    debug: Option<(PathBuf, Option<PathBuf>)>,
    dwarf: OnceCell<Option<Loader>>,
    /// The file with the best symbol table.
    table_file: PathBuf,
    table: OnceCell<SymbolTable>,
}

impl Elf {
    /// Opens the module's file, if it is the build that was recorded, and its separate debug file.
    /// When the file is gone or another build, a debug file of the right build is enough.
    pub fn open(module: &Module) -> Result<(Known, Elf), Known> {
        let path = Path::new(files::undeleted(&module.path));
        let file = match files::look(path) {
            Some(found) if module.build_id.is_empty() => {
                if changed_since(path, module.recorded_ns) {
                    Err(Known::Newer)
                } else {
                    Ok(found)
                }
            }
            Some(found) if found.build_id == module.build_id => Ok(found),
            Some(_) => Err(Known::OtherBuild),
            None if path.exists() => Err(Known::Unreadable),
            None => Err(Known::NoFile),
        };
        let separate = match &file {
            Ok(found) if found.debug => None,
            found => files::separate(&module.build_id, found.as_ref().ok()),
        };
        let best = match (file, separate) {
            (_, Some(debug)) => debug,
            (Ok(found), None) => found,
            (Err(known), None) => return Err(known),
        };
        Ok(Elf::of(best))
    }

    fn of(found: Found) -> (Known, Elf) {
        let known = match (found.debug, found.symtab) {
            (true, _) => Known::Debug,
            (false, true) => Known::Functions,
            (false, false) => Known::Exported,
        };
        let debug = found
            .debug
            .then(|| (found.path.clone(), files::shared(&found)));
        let elf = Elf {
            debug,
            dwarf: OnceCell::new(),
            table_file: found.path,
            table: OnceCell::new(),
        };
        (known, elf)
    }

    fn dwarf(&self) -> Option<&Loader> {
        let open = || {
            let (path, shared) = self.debug.as_ref()?;
            Loader::new_with_sup(path, shared.as_ref()).ok()
        };
        self.dwarf.get_or_init(open).as_ref()
    }

    /// Functions at an address of the file, innermost first.
    pub fn symbols(&self, address: u64, intern: &mut dyn FnMut(String) -> Arc<str>) -> Vec<Symbol> {
        let mut out = self
            .dwarf()
            .map_or(Vec::new(), |d| frames(d, address, intern));
        if out.last().is_none_or(|s| s.function.is_none()) {
            let table = self
                .table
                .get_or_init(|| SymbolTable::read(&self.table_file).unwrap_or_default());
            if let Some(name) = table.find(address) {
                let function = Some(intern(names::demangle(name)));
                match out.last_mut() {
                    Some(last) => last.function = function,
                    None => out.push(Symbol {
                        function,
                        file: None,
                        line: None,
                        inlined: false,
                    }),
                }
            }
        }
        out
    }
}

fn frames(dwarf: &Loader, address: u64, intern: &mut dyn FnMut(String) -> Arc<str>) -> Vec<Symbol> {
    let mut out: Vec<Symbol> = Vec::new();
    let Ok(mut frames) = dwarf.find_frames(address) else {
        return out;
    };
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|f| f.raw_name().ok());
        let location = frame.location;
        let file = location.as_ref().and_then(|l| l.file);
        if let Some(outer) = out.last_mut() {
            outer.inlined = true;
        }
        out.push(Symbol {
            function: name.map(|n| intern(names::demangle(&n))),
            file: file.map(|f| intern(text(tidy(f).as_bytes()))),
            line: location.and_then(|l| l.line).filter(|&l| l > 0),
            inlined: false,
        });
    }
    out
}

/// A path without `.` and `..` in its middle.
fn tidy(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if parts.last().is_some_and(|p| !p.is_empty() && *p != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn changed_since(path: &Path, recorded_ns: u64) -> bool {
    let modified = path.metadata().and_then(|m| m.modified());
    modified.is_ok_and(|m| m > UNIX_EPOCH + Duration::from_nanos(recorded_ns))
}

/// Functions of `.symtab`, or of `.dynsym` where the file is stripped.
#[derive(Default)]
struct SymbolTable {
    /// (start, size, name), by start.
    symbols: Vec<(u64, u64, Box<str>)>,
}

impl SymbolTable {
    fn read(path: &Path) -> Option<SymbolTable> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let elf = object::File::parse(&cache).ok()?;
        let mut by_start: HashMap<u64, (u64, Box<str>)> = HashMap::new();
        for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
            let (Ok(name), false) = (symbol.name(), symbol.is_undefined()) else {
                continue;
            };
            if symbol.kind() != object::SymbolKind::Text || name.is_empty() {
                continue;
            }
            // Of aliases keep the plainest: `malloc` rather than `__libc_malloc`.
            let rank = |name: &str| (name.starts_with('_'), name.len());
            let entry = by_start.entry(symbol.address());
            let known = entry.or_insert_with(|| (symbol.size(), name.into()));
            if rank(name) < rank(&known.1) {
                *known = (known.0.max(symbol.size()), name.into());
            }
        }
        let mut symbols: Vec<_> = by_start
            .into_iter()
            .map(|(start, (size, name))| (start, size, name))
            .collect();
        symbols.sort_by_key(|s| s.0);
        Some(SymbolTable { symbols })
    }

    /// The function that covers the address. A symbol of unknown size reaches to the next one.
    fn find(&self, address: u64) -> Option<&str> {
        let at = self
            .symbols
            .partition_point(|s| s.0 <= address)
            .checked_sub(1)?;
        let (start, size, name) = &self.symbols[at];
        (*size == 0 || address - start < *size).then_some(name)
    }
}
