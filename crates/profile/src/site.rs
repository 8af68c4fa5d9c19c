//! The choice of the one frame of a stack that is shown as its site.

use crate::merge::{Frame, StackId, Stacks};
use crate::site_rules::{self, Kind};
use crate::symbols::{Module, Symbol, Symbolizer};
use std::sync::Arc;

/// What is shown for a stack. Two stacks with equal sites are the same site.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Site {
    /// No stack was recorded, or it holds only what starts and ends programs and threads.
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
/// the outermost of its destructors; then the innermost that is not an allocator's; else the innermost that
/// may be one at all. Symbolizes no further out than that.
pub(crate) fn choose(
    stack: StackId,
    stacks: &Stacks,
    modules: &[Module],
    symbolizer: &mut Symbolizer,
) -> Site {
    let mut best = Best::default();
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
            if best.offer(kind, site) {
                return best.site();
            }
        }
    }
    best.site()
}

/// The best site seen on the way out of a stack.
#[derive(Default)]
struct Best(Option<(Kind, Site)>);

impl Best {
    /// Takes in the next one out; true where none further out can be better.
    fn offer(&mut self, kind: Kind, site: Site) -> bool {
        let better = match &self.0 {
            None => true,
            // The innermost of a kind, but of destructors the outermost.
            Some((best, _)) => kind < *best || (kind == *best && kind == Kind::Destructor),
        };
        if better && kind != Kind::Never {
            self.0 = Some((kind, site));
        }
        kind == Kind::Own
    }

    fn site(self) -> Site {
        self.0.map_or(Site::None, |(_, site)| site)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The site among functions, innermost first.
    fn site(functions: &[&str]) -> Option<String> {
        let mut best = Best::default();
        for name in functions {
            let site = Site::Function {
                function: (*name).into(),
                file: None,
                line: None,
                module: 0,
            };
            if best.offer(site_rules::of_function(name), site) {
                break;
            }
        }
        match best.site() {
            Site::Function { function, .. } => Some(function.to_string()),
            _ => None,
        }
    }

    #[test]
    fn what_starts_and_ends_programs_is_never_a_site() {
        assert_eq!(site(&["malloc", "main", "_start"]).as_deref(), Some("main"));
        assert_eq!(
            site(&["std::vector<int>::~vector()", "exit", "_start"]).as_deref(),
            Some("std::vector<int>::~vector()")
        );
        assert_eq!(site(&["__libc_start_main", "_start"]), None);
        assert_eq!(
            site(&["<homefree::Recorded<A> as core::alloc::global::GlobalAlloc>::dealloc"]),
            None
        );
        assert_eq!(site(&[]), None);
    }

    #[test]
    fn at_exit_the_outermost_destructor_is_the_site() {
        let stack = [
            "operator delete(void*)",
            "std::__cxx11::basic_string<char>::~basic_string()",
            "Part::~Part()",
            "std::unique_ptr<Part>::~unique_ptr()",
            "Registry::~Registry()",
            "__run_exit_handlers",
            "exit",
            "__libc_start_main",
            "_start",
        ];
        assert_eq!(site(&stack).as_deref(), Some("Registry::~Registry()"));
        let called = ["Part::~Part()", "serve(int)", "start_thread", "clone3"];
        assert_eq!(site(&called).as_deref(), Some("serve(int)"));
    }
}
