//! Columns of text.

/// Rows whose cells line up; the last column is not padded.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table, each line after `indent` blanks.
    pub fn render(&self, indent: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| width_of(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.push_str(&" ".repeat(width + 2 - width_of(cell)));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Characters that are seen: colour codes are not.
fn width_of(text: &str) -> usize {
    let mut width = 0;
    let mut code = false;
    for c in text.chars() {
        match c {
            '\u{1b}' => code = true,
            'm' if code => code = false,
            _ if code => {}
            _ => width += 1,
        }
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_line_up_whatever_their_colour() {
        let mut table = Table::new();
        table.row(["a", "b", "c"]);
        table.row(["\u{1b}[32mlong\u{1b}[0m", "b", ""]);
        assert_eq!(
            table.render(2),
            "  a     b  c\n  \u{1b}[32mlong\u{1b}[0m  b\n"
        );
    }
}
