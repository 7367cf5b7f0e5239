//! Aligned columns, times and sizes for people.

use chrono::{DateTime, Local};
use unicode_width::UnicodeWidthStr;

use crate::text::one_line;

/// Rows of cells under headers. The last column is not padded, so that long names cost nothing.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    columns: [Column; N],
    widths: [usize; N],
    rows: Vec<[String; N]>,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Column {
    /// With this header, and text at the left.
    Left(&'static str),
    /// With this header, and text at the right.
    Right(&'static str),
}

impl<const N: usize> Table<N> {
    /// A table with headers and no rows.
    pub(crate) fn new(columns: [Column; N]) -> Self {
        Self { columns, widths: columns.map(|column| column.header().len()), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: [String; N]) {
        let row = row.map(|cell| one_line(&cell).into_owned());
        for (width, cell) in self.widths.iter_mut().zip(&row) {
            *width = cell.width().max(*width);
        }
        self.rows.push(row);
    }

    /// All rows, with the headers above them.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        let headers = self.columns.map(|column| column.header().to_owned());
        for row in std::iter::once(&headers).chain(&self.rows) {
            self.line(row, &mut text);
        }
        text
    }

    fn line(&self, row: &[String; N], text: &mut String) {
        for (index, cell) in row.iter().enumerate() {
            let padding = " ".repeat(self.widths[index].saturating_sub(cell.width()));
            match self.columns[index] {
                Column::Right(_) => text.extend([&padding, cell.as_str()]),
                Column::Left(_) if index + 1 == N => text.push_str(cell),
                Column::Left(_) => text.extend([cell.as_str(), &padding]),
            }
            text.push_str(if index + 1 == N { "\n" } else { "  " });
        }
    }
}

impl Column {
    fn header(self) -> &'static str {
        match self {
            Self::Left(header) | Self::Right(header) => header,
        }
    }
}

/// A time in Unix milliseconds, in the time zone of this machine; `-` when it is not known.
pub(crate) fn time(time_ms: Option<u64>) -> String {
    time_ms
        .filter(|time_ms| *time_ms > 0)
        .and_then(|time_ms| DateTime::from_timestamp_millis(i64::try_from(time_ms).ok()?))
        .map_or_else(|| "-".to_owned(), |time| time.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string())
}

/// A number; `-` when it is not known.
pub(crate) fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_what_a_terminal_shows() {
        let mut table = Table::new([Column::Left("KIND"), Column::Right("SIZE"), Column::Left("PATH")]);
        table.push(["file".to_owned(), "12".to_owned(), "a\nb".to_owned()]);
        table.push(["日本語".to_owned(), "123456".to_owned(), "c".to_owned()]);
        let expected = "\
KIND      SIZE  PATH
file        12  a\\nb
日本語  123456  c
";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn times_that_are_not_known_are_a_dash() {
        assert_eq!([time(None), time(Some(0)), time(Some(u64::MAX))], ["-", "-", "-"]);
        assert_eq!(time(Some(1_791_458_565_123)).len(), "2026-10-09 03:22:45".len());
    }
}
