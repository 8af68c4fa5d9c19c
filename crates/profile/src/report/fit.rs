//! Fitting names into columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns that the text takes on a terminal.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text in at most `columns`, its middle replaced by `…` where it is longer. The end keeps a little
/// more than the beginning: it tells more about a function or a path.
pub(crate) fn cut_middle(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    if columns <= 1 {
        return "…".repeat(columns);
    }
    let head_room = (columns - 1) * 2 / 5;
    let head = head(text, head_room);
    let tail = tail(text, columns - 1 - width(head));
    format!("{head}…{tail}")
}

fn head(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

fn tail(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let start = text.char_indices().rev().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    &text[start.map_or(0, |(at, c)| at + c.len_utf8())..]
}

/// Padded on the left to `columns`.
pub(crate) fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Padded on the right to `columns`.
pub(crate) fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Words of `text` in lines of at most `columns`; a word that is longer is cut in its middle.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let word = cut_middle(word, columns);
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(&word) <= columns => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// A source file as people name it: relative to the working directory, a crate's own path inside the
/// registry, the standard library's without the place where it was built.
pub(crate) fn source_path(path: &str, working_dir: &str) -> String {
    if let Some(rest) = path
        .strip_prefix(working_dir)
        .and_then(|p| p.strip_prefix('/'))
    {
        return rest.to_owned();
    }
    if let Some((_, rest)) = path.split_once("/registry/src/")
        && let Some((_, in_crate)) = rest.split_once('/')
    {
        return in_crate.to_owned();
    }
    if let Some((_, rest)) = path.split_once("/include/c++/") {
        return format!("c++/{rest}");
    }
    for library in ["/rustc/", "/lib/rustlib/src/rust/"] {
        if let Some((_, rest)) = path.split_once(library)
            && let Some(at) = rest.find("library/")
        {
            return rest[at..].to_owned();
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_in_the_middle_and_never_too_wide() {
        assert_eq!(cut_middle("short", 9), "short");
        assert_eq!(cut_middle("abcdefghij", 6), "ab…hij");
        for columns in 0..30 {
            for text in [
                "std::vector<int>::push_back",
                "日本語のなまえをもつ関数",
                "e\u{301}e\u{301}e\u{301}e\u{301}",
            ] {
                let cut = cut_middle(text, columns);
                assert!(width(&cut) <= columns, "{cut:?} in {columns}");
            }
        }
    }

    #[test]
    fn source_paths_lose_what_nobody_reads() {
        for (path, shown) in [
            ("/home/me/app/src/main.rs", "src/main.rs"),
            (
                "/home/me/.cargo/registry/src/index-0123/tokio-1.4.0/src/task.rs",
                "tokio-1.4.0/src/task.rs",
            ),
            (
                "/rustc/0123456/library/alloc/src/vec/mod.rs",
                "library/alloc/src/vec/mod.rs",
            ),
            (
                "/usr/include/c++/12/bits/new_allocator.h",
                "c++/12/bits/new_allocator.h",
            ),
        ] {
            assert_eq!(source_path(path, "/home/me/app"), shown);
        }
    }

    #[test]
    fn text_wraps() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij", 5), ["a…hij"]);
    }
}
