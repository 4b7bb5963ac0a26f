//! CSV of others that has a header: values by the names of their columns.

use std::io;

use super::csv::Record;
use super::input::Input;
use super::problem::Problem;

/// What a format calls its columns: the first name of each is ours.
pub(super) type Names = &'static [&'static [&'static str]];

/// Records with the columns of a format.
#[derive(Default)]
pub(super) struct Columns {
    record: Record,
    /// Where each name is.
    places: Option<Vec<Option<usize>>>,
    width: usize,
    is_over: bool,
}

impl Columns {
    /// Reads the next record. One of the columns in `needed` must be there, of each of its lists. A header that has
    /// other columns than these ends the file.
    pub(super) fn read(
        &mut self,
        input: &mut Input,
        names: Names,
        needed: &[&[&str]],
    ) -> io::Result<Option<Result<u64, Problem>>> {
        if self.is_over {
            return Ok(None);
        }
        if self.places.is_none() {
            let problem = match self.record.read(input)? {
                None => return Ok(None),
                Some(read) => read.and_then(|()| self.read_header(names, needed)).err(),
            };
            if let Some(problem) = problem {
                self.is_over = true;
                return Ok(Some(Err(problem)));
            }
        }
        let Some(read) = self.record.read(input)? else { return Ok(None) };
        let (line, count) = (self.record.line, self.record.len());
        Ok(Some(read.and_then(|()| match count == self.width {
            true => Ok(line),
            false => Err(Problem::new(line, format!("it has {count} values, and the header {}", self.width))),
        })))
    }

    fn read_header(&mut self, names: Names, needed: &[&[&str]]) -> Result<(), Problem> {
        let line = self.record.line;
        let mut places = vec![None; names.len()];
        for (index, given) in self.record.values().enumerate() {
            let given = given.trim();
            let place = names.iter().position(|all| all.iter().any(|it| it.eq_ignore_ascii_case(given)));
            match place {
                None => return Err(Problem::new(line, format!("the column {given:?} is not known here"))),
                Some(place) if places[place].is_some() => {
                    return Err(Problem::new(line, format!("the column {given:?} is there twice")));
                }
                Some(place) => places[place] = Some(index),
            }
        }
        for any in needed {
            let is_there =
                |name: &str| names.iter().zip(&places).any(|(all, place)| all[0] == name && place.is_some());
            if !any.iter().any(|name| is_there(name)) {
                return Err(Problem::new(line, format!("the column {:?} is missing", any[0])));
            }
        }
        self.width = self.record.len();
        self.places = Some(places);
        Ok(())
    }

    /// What the record has in a column; none if that is nothing.
    pub(super) fn get(&self, names: Names, name: &str) -> Option<&str> {
        let index = names.iter().position(|all| all[0] == name)?;
        let place = (*self.places.as_ref()?.get(index)?)?;
        self.record.get(place).filter(|value| !value.is_empty())
    }
}
