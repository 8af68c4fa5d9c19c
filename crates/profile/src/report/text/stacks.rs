//! Sites and whole stacks.

use super::{BOLD, DIM, INDENT, Page, SITE};
use crate::merge::{End, StackId};
use crate::report::fit::{cut_middle, source_path, width, wrap};
use crate::report::rows::Row;
use crate::report::units::{count, share};
use crate::site::{Site, site_of};
use crate::symbols::{Symbol, shorten};

impl Page<'_> {
    /// A name and a place in `room` columns; the longer one gives way.
    pub(super) fn beside(&self, name: &str, place: &str, room: usize) -> String {
        let (name, place) = share_room(name, place, room);
        if place.is_empty() {
            return name;
        }
        format!("{name}  {}", self.paint(DIM, &place))
    }

    /// Name and place of a site.
    pub(super) fn site(&self, site: &Site) -> (String, String) {
        match site {
            Site::None => ("(no site)".into(), String::new()),
            Site::Function {
                function,
                file,
                line,
                module,
            } => (
                shorten(function),
                self.place(file.as_deref(), *line, *module),
            ),
            Site::Address { module, address } => (self.address(*module, *address), String::new()),
        }
    }

    fn address(&self, module: u32, address: u64) -> String {
        let name = self.report.module(module).map_or("?", |m| m.short());
        format!("{name}+{address:#x}")
    }

    /// `file:line`, or the module where the line is not known.
    fn place(&self, file: Option<&str>, line: Option<u32>, module: u32) -> String {
        match (file, line) {
            (Some(file), Some(line)) => {
                format!("{}:{line}", source_path(file, &self.working_dir))
            }
            (Some(file), None) => source_path(file, &self.working_dir),
            _ => {
                let module = self.report.module(module);
                module.map_or("?", |m| m.short()).to_owned()
            }
        }
    }

    /// The whole stacks of the row's most frequent flow.
    pub(super) fn stacks(&self, row: &Row, lines: &mut Vec<String>) {
        let Some(first) = row.flows.first() else {
            return;
        };
        let indent = " ".repeat(INDENT);
        if row.flows.len() > 1 {
            let text = format!(
                "the most frequent of {} pairs of stacks, {} of these frees",
                count(row.flows.len() as u64),
                share(self.frees(first), row.freed.count)
            );
            for line in wrap(&text, self.columns - INDENT) {
                lines.push(format!("{indent}{}", self.paint(DIM, &line)));
            }
        }
        let both = [
            ("allocated by", first.alloc_stack),
            ("freed by", first.free_stack),
        ];
        for (title, stack) in both {
            lines.push(format!("{indent}{}", self.paint(BOLD, title)));
            self.stack(stack, lines);
        }
    }

    /// A stack, innermost first, its site marked.
    fn stack(&self, stack: StackId, lines: &mut Vec<String>) {
        let indent = " ".repeat(INDENT);
        let room = self.columns - INDENT - 2;
        let stacks = &self.report.merged.stacks;
        let site = self.report.site(stack);
        let mut marked = false;
        let mut mark = |this: &Site| {
            let now = !marked && this == site;
            marked |= now;
            if now {
                self.paint(SITE, "▸ ")
            } else {
                "  ".to_owned()
            }
        };
        for frame in stacks.frames(stack) {
            let symbols = self.report.symbolizer.answered(frame);
            if symbols.is_empty() {
                let address = frame.address.wrapping_sub(1);
                let module = frame.module;
                let mark = mark(&Site::Address { module, address });
                let address = cut_middle(&self.address(module, address), room);
                lines.push(format!("{indent}{mark}{address}"));
            }
            for symbol in symbols {
                let mark = mark(&site_of(symbol, frame));
                let symbol = self.symbol(symbol, frame.module, room);
                lines.push(format!("{indent}{mark}{symbol}"));
            }
        }
        let end = match stacks.end(stack) {
            None => "(no stack)",
            Some((End::Whole, _)) => return,
            Some((End::Cut, _)) => "(cut: could not be followed further)",
            Some((End::Deep, _)) => "(cut: the depth limit, see --depth)",
            Some((End::Signal, _)) => "(signal)",
            Some((End::Damaged, _)) => "(the rest is damaged in the profile)",
        };
        let end = self.paint(DIM, &cut_middle(end, room));
        lines.push(format!("{indent}  {end}"));
    }

    fn symbol(&self, symbol: &Symbol, module: u32, room: usize) -> String {
        let function = symbol.function.as_deref().map_or("?".into(), shorten);
        let place = self.place(symbol.file.as_deref(), symbol.line, module);
        if !symbol.inlined {
            return self.beside(&function, &place, room);
        }
        let mark = " (inlined)";
        let (function, place) = share_room(&function, &place, room.saturating_sub(width(mark)));
        let rest = self.paint(DIM, &format!("{place}{mark}"));
        format!("{function}  {rest}")
    }
}

/// Cuts a name and a place to fit, with two columns between them.
fn share_room(name: &str, place: &str, room: usize) -> (String, String) {
    if place.is_empty() {
        return (cut_middle(name, room), String::new());
    }
    let left_over = room.saturating_sub(width(name) + 2);
    let place = cut_middle(place, (room * 2 / 5).max(left_over));
    let name = cut_middle(name, room.saturating_sub(width(&place) + 2));
    (name, place)
}
