//! Symbol tables: functions by address.

use object::{Object, ObjectSymbol, ReadCache};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// Functions of `.symtab`, or of `.dynsym` where the file is stripped.
#[derive(Default)]
pub(super) struct SymbolTable {
    /// (start, size, name), by start.
    symbols: Vec<(u64, u64, Box<str>)>,
}

impl SymbolTable {
    pub fn read(path: &Path) -> Option<SymbolTable> {
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
    pub fn find(&self, address: u64) -> Option<&str> {
        let at = self
            .symbols
            .partition_point(|s| s.0 <= address)
            .checked_sub(1)?;
        let (start, size, name) = &self.symbols[at];
        (*size == 0 || address - start < *size).then_some(name)
    }
}
