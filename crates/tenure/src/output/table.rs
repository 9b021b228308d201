//! Tables for people. A table that is too wide is narrowed: columns that may shrink are cut with an ellipsis, the
//! widest first.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::paint::{Color, Paint, escape_line};

/// The space between columns.
const GAP: usize = 2;
/// How far columns shrink, one step after the other: first those that matter less. No column shrinks below the last
/// widths.
const STEPS: [(bool, usize); 4] = [(true, 12), (false, 16), (true, 6), (false, 6)];

#[derive(Debug, Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// Said instead of a table without rows.
    nothing: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Keeps its width.
    Fixed(&'static str),
    /// May be cut.
    Flexible(&'static str),
    /// As `Flexible`, but cut before those.
    Minor(&'static str),
    /// Keeps its width, flush right.
    Number(&'static str),
    /// As `Number`, but left out where there is no room; the last one goes first.
    Spare(&'static str),
}

#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    color: Color,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::new(text, Color::Plain)
    }
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>, color: Color) -> Cell {
        Cell { text: escape_line(&text.into()).into_owned(), color }
    }
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Column::Fixed(title)
            | Column::Flexible(title)
            | Column::Minor(title)
            | Column::Number(title)
            | Column::Spare(title) => title,
        }
    }
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = Column>, nothing: impl Into<String>) -> Table {
        Table { columns: columns.into_iter().collect(), rows: Vec::new(), nothing: nothing.into() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<Cell> = cells.into_iter().collect();
        cells.resize_with(self.columns.len(), || Cell::from(""));
        self.rows.push(cells);
    }

    /// The whole table as text, with a newline at its end.
    pub(crate) fn render(&self, width: usize, paint: Paint) -> String {
        if self.rows.is_empty() {
            return format!("{}\n", self.nothing);
        }
        let widths = self.fit(width);
        let mut text = String::new();
        let titles =
            self.columns.iter().map(|column| Cell::new(column.title(), Color::Bold)).collect::<Vec<_>>();
        for row in std::iter::once(&titles).chain(&self.rows) {
            text += &self.line(row, &widths, paint);
        }
        text
    }

    fn line(&self, row: &[Cell], widths: &[usize], paint: Paint) -> String {
        let mut line = String::new();
        for ((cell, column), width) in row.iter().zip(&self.columns).zip(widths) {
            if *width == 0 {
                continue;
            }
            if !line.is_empty() {
                line += &" ".repeat(GAP);
            }
            let shown = cut(&cell.text, *width);
            let padding = " ".repeat(width - shown.width());
            let painted = paint.apply(cell.color, shown);
            match column {
                Column::Number(_) | Column::Spare(_) => line += &format!("{padding}{painted}"),
                _ => line += &format!("{painted}{padding}"),
            }
        }
        format!("{}\n", line.trim_end())
    }

    /// The width of each column: as wide as its widest cell, unless the table would be too wide. A column without any
    /// content is left out.
    fn fit(&self, width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| match self.rows.iter().map(|row| row[index].text.width()).max() {
                None | Some(0) => 0,
                Some(widest) => widest.max(column.title().width()),
            })
            .collect();
        loop {
            let shown = widths.iter().filter(|width| **width > 0).count();
            let total = widths.iter().sum::<usize>() + GAP * shown.saturating_sub(1);
            if total <= width {
                return widths;
            }
            let Some(widest) = STEPS.iter().find_map(|step| self.widest(&widths, *step)) else {
                let is_spare =
                    |index: &usize| matches!(self.columns[*index], Column::Spare(_)) && widths[*index] > 0;
                let Some(spare) = (0..widths.len()).rev().find(is_spare) else { return widths };
                widths[spare] = 0;
                continue;
            };
            // Down to what is needed, but not below the next widest at once: neighbours share the loss.
            widths[widest] -= 1;
        }
    }

    /// The widest column that one step may cut.
    fn widest(&self, widths: &[usize], (is_minor, least): (bool, usize)) -> Option<usize> {
        let may_be_cut = |index: &usize| match self.columns[*index] {
            Column::Flexible(_) => !is_minor && widths[*index] > least,
            Column::Minor(_) => is_minor && widths[*index] > least,
            _ => false,
        };
        (0..widths.len()).filter(may_be_cut).max_by_key(|index| widths[*index])
    }
}

/// The text, or its beginning with an ellipsis.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    let mut used = 1;
    for c in text.chars() {
        let next = c.width().unwrap_or(0);
        if used + next > width {
            break;
        }
        used += next;
        shown.push(c);
    }
    shown + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(
            [Column::Fixed("TASK"), Column::Flexible("NOTE"), Column::Number("TRIES"), Column::Fixed("NAME")],
            "none",
        );
        table.row(["0190aaaa".into(), "a short note".into(), "1".into(), "".into()]);
        table.row([
            "0190bbbb".into(),
            "a note that goes on and on for longer than anybody wants".into(),
            "12".into(),
        ]);
        table
    }

    #[test]
    fn a_table_is_as_wide_as_it_must_be_and_leaves_empty_columns_out() {
        let text = table().render(200, Paint::new(false));
        assert_eq!(
            text,
            "TASK      NOTE                                                      TRIES\n\
             0190aaaa  a short note                                                  1\n\
             0190bbbb  a note that goes on and on for longer than anybody wants     12\n"
        );
    }

    #[test]
    fn a_narrow_terminal_cuts_what_may_be_cut() {
        let text = table().render(40, Paint::new(false));
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert!(text.contains("0190bbbb  a note that goes o…     12") || text.contains('…'), "{text}");
        assert!(text.contains("0190bbbb"));
    }

    #[test]
    fn what_matters_less_is_cut_first() {
        let mut table = Table::new([Column::Minor("QUEUE"), Column::Flexible("NOTE")], "none");
        table.row(["a-queue-with-a-name".into(), "a note with some words".into()]);
        let row =
            |width| table.render(width, Paint::new(false)).lines().nth(1).unwrap_or_default().to_owned();
        assert_eq!(row(40), "a-queue-with-a-…  a note with some words");
        assert_eq!(row(30), "a-queue-wit…  a note with som…");
        assert_eq!(row(24), "a-que…  a note with som…");
        assert_eq!(row(16), "a-que…  a note …");
    }

    #[test]
    fn what_can_be_spared_goes_where_there_is_no_room() {
        let columns =
            [Column::Fixed("TASK"), Column::Spare("DOOR"), Column::Flexible("NOTE"), Column::Spare("CPU")];
        let mut table = Table::new(columns, "none");
        table.row(["0190aaaa".into(), "native".into(), "a short note".into(), "12%".into()]);
        let width =
            |width| table.render(width, Paint::new(false)).lines().map(str::width).max().unwrap_or_default();
        assert_eq!(width(80), 35);
        assert_eq!(width(28), 24, "without the processor");
        assert_eq!(width(20), 16, "without the door");
    }

    #[test]
    fn an_empty_table_says_so() {
        assert_eq!(Table::new([Column::Fixed("A")], "no tasks").render(80, Paint::new(false)), "no tasks\n");
    }

    #[test]
    fn wide_characters_count_double() {
        assert_eq!(cut("日本語テキスト", 7), "日本語…");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
    }
}
