//! The choice of the one frame of a stack that is shown as its site.

use crate::merge::{Frame, StackId, Stacks};
use crate::site_rules::{self, Kind};
use crate::symbols::{Module, Symbol, Symbolizer};
use std::sync::Arc;

/// What is shown for a stack. Two stacks with equal sites are the same site.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Site {
    /// No stack was recorded.
    None,
    /// A function by name.
    Function {
        function: Arc<str>,
        file: Option<Arc<str>>,
        line: Option<u32>,
        module: u32,
    },
    /// A place without a name.
    Address { module: u32, address: u64 },
}

/// Chooses the site of a stack: the innermost function that is the program's own; where there is none,
/// the innermost that is not an allocator's; else the innermost. Symbolizes no further out than that.
pub(crate) fn choose(
    stack: StackId,
    stacks: &Stacks,
    modules: &[Module],
    symbolizer: &mut Symbolizer,
) -> Site {
    let mut best: Option<(Kind, Site)> = None;
    for frame in stacks.frames(stack) {
        let in_module = modules
            .get(frame.module as usize)
            .map_or(Kind::Own, |m| site_rules::of_module(m.short()));
        let symbols = symbolizer.symbols(modules, frame);
        let candidates = symbols
            .iter()
            .map(|s| (kind_of(s, in_module), site_of(s, frame)))
            .chain(symbols.is_empty().then(|| (in_module, address_of(frame))));
        for (kind, site) in candidates {
            if kind == Kind::Own {
                return site;
            }
            if best.as_ref().is_none_or(|(b, _)| kind < *b) {
                best = Some((kind, site));
            }
        }
    }
    best.map_or(Site::None, |(_, site)| site)
}

fn kind_of(symbol: &Symbol, in_module: Kind) -> Kind {
    let by_name = symbol
        .function
        .as_deref()
        .map_or(Kind::Own, site_rules::of_function);
    let by_file = symbol
        .file
        .as_deref()
        .map_or(Kind::Own, site_rules::of_file);
    by_name.max(by_file).max(in_module)
}

/// What is shown for one function of a frame.
pub(crate) fn site_of(symbol: &Symbol, frame: Frame) -> Site {
    match &symbol.function {
        Some(function) => Site::Function {
            function: function.clone(),
            file: symbol.file.clone(),
            line: symbol.line,
            module: frame.module,
        },
        None => address_of(frame),
    }
}

/// The place of the call (see [`Frame`]: the address kept is where it returns to).
fn address_of(frame: Frame) -> Site {
    Site::Address {
        module: frame.module,
        address: frame.address.wrapping_sub(1),
    }
}
