//! Tables as text and as Markdown.

use std::fmt::Write;

/// A table: what it is of, its columns, its rows, and what is to be said below.
pub struct Grid {
    /// Title.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Rows, as many cells each as there are columns.
    pub rows: Vec<Vec<String>>,
    /// Lines below.
    pub notes: Vec<String>,
}

impl Grid {
    /// An empty table.
    pub fn new(title: impl Into<String>, head: &[&str]) -> Self {
        Self {
            title: title.into(),
            head: head.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// For a terminal: the first column to the left, the others to the right.
    pub fn text(&self) -> String {
        let mut widths = vec![0; self.head.len()];
        for row in std::iter::once(&self.head).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut out = format!("\n{}\n", self.title);
        for row in std::iter::once(&self.head).chain(&self.rows) {
            let mut line = String::new();
            for (index, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let _ = if index == 0 {
                    write!(line, "  {cell:<width$}")
                } else {
                    write!(line, "  {cell:>width$}")
                };
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        for note in &self.notes {
            let _ = writeln!(out, "  {note}");
        }
        out
    }

    /// For a document.
    pub fn markdown(&self) -> String {
        let mut out = format!("\n### {}\n\n| {} |\n", self.title, self.head.join(" | "));
        let _ = writeln!(out, "|:--{}|", "|--:".repeat(self.head.len() - 1));
        for row in &self.rows {
            let _ = writeln!(out, "| {} |", row.join(" | "));
        }
        if !self.notes.is_empty() {
            out.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(out, "* {note}");
        }
        out
    }
}
