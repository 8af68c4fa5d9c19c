//! What a library's file says of its thread-locals and of where its code lies.

use anyhow::{Context, Result, bail};
use object::elf::{FileHeader64, PT_TLS, R_X86_64_DTPMOD64, R_X86_64_TLSDESC, R_X86_64_TPOFF64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, Sym};
use object::{Endianness, elf};
use std::path::Path;

/// What is in the file.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Bytes of a thread's block of the library's thread-locals.
    pub tls_size: u64,
    /// Alignment of that block.
    pub tls_align: u64,
    /// Thread-locals reached through `__tls_get_addr`: entries that the loader fills for it.
    pub modules: usize,
    /// TLS descriptors: the addresses of their pairs of words.
    pub descriptors: Vec<u64>,
    /// Thread-locals reached by the initial-exec model.
    pub initial_exec: usize,
    /// Offset within a page at which the engine's code starts.
    pub page_offset: u64,
}

/// Reads a library's file.
///
/// # Errors
/// It is no ELF file of 64 bits, or has no engine in it.
pub fn read(path: &Path) -> Result<Facts> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let data = bytes.as_slice();
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?;
    let block = segments.iter().find(|s| s.p_type(endian) == PT_TLS);
    let mut facts = Facts {
        tls_size: block.map_or(0, |s| s.p_memsz(endian)),
        tls_align: block.map_or(0, |s| s.p_align(endian)),
        modules: 0,
        descriptors: Vec::new(),
        initial_exec: 0,
        page_offset: 0,
    };
    let sections = header.sections(endian, data)?;
    for section in sections.iter() {
        let Some((relocations, _)) = section.rela(endian, data)? else {
            continue;
        };
        for relocation in relocations {
            match relocation.r_type(endian, false) {
                R_X86_64_DTPMOD64 => facts.modules += 1,
                R_X86_64_TPOFF64 => facts.initial_exec += 1,
                R_X86_64_TLSDESC => facts.descriptors.push(relocation.r_offset(endian)),
                _ => {}
            }
        }
    }
    let symbols = sections.symbols(endian, data, elf::SHT_SYMTAB)?;
    let strings = symbols.strings();
    let page = symbols.iter().find(|s| {
        s.name(endian, strings)
            .is_ok_and(|name| name == b"tpch_page")
    });
    match page {
        Some(page) => {
            facts.page_offset = page.st_value(endian) % 4096;
        }
        _ => bail!("{}: no engine in it, or stripped", path.display()),
    }
    Ok(facts)
}
