//! Events as they happen: each is written down in the step that makes it happen, so
//! it is there once however many servers look.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Event, EventKind, Hot};
use crate::clock::Timestamp;
use crate::error::Result;

/// How often a store is asked for news.
const PAUSE: Duration = Duration::from_millis(200);

/// Events asked for at a time.
const BATCH: usize = 100;

/// A position among the events of a space.
#[derive(Debug)]
pub struct Watch {
    hot: Hot,
    /// By partition.
    cursors: Vec<String>,
    news: VecDeque<Event>,
    /// After the last event that was told.
    told: String,
}

impl Watch {
    pub(super) async fn new(hot: Hot, cursor: Option<&str>) -> Result<Self> {
        let partitions = hot.options().partitions as usize;
        let given: Vec<&str> = cursor.map(|it| it.split(',').collect()).unwrap_or_default();
        let mut cursors = Vec::with_capacity(partitions);
        for number in 0..partitions {
            cursors.push(match given.get(number).filter(|it| is_cursor(it) && given.len() == partitions) {
                Some(cursor) => (*cursor).to_owned(),
                None => hot.events(number, None, 0).await?.1,
            });
        }
        let told = cursors.join(",");
        Ok(Self { hot, cursors, news: VecDeque::new(), told })
    }

    /// Where it stands: to go on from, also before the first event has come.
    pub fn cursor(&self) -> String {
        self.told.clone()
    }

    /// The next event, whenever it happens. While the store is away it waits.
    pub async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.news.pop_front() {
                self.told.clone_from(&event.cursor);
                return Ok(event);
            }
            match self.fetch().await {
                Err(error) if !error.is_transient() => return Err(error),
                _ => {}
            }
            if self.news.is_empty() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Asks for news, once; whether there are any.
    async fn fetch(&mut self) -> Result<bool> {
        for number in 0..self.cursors.len() {
            let (news, cursor, is_missing) =
                self.hot.events(number, Some(&self.cursors[number]), BATCH).await?;
            // Who begins with the oldest misses nothing.
            if is_missing && self.cursors[number] != "0-0" {
                self.news.push_back(Event {
                    cursor: self.cursors.join(","),
                    kind: EventKind::Missed,
                    page: String::new(),
                    edits: 0,
                    at: news.first().map_or(Timestamp::default(), |first| first.at),
                });
            }
            self.cursors[number] = cursor;
            for event in news {
                // One that takes up here needs the positions of all partitions.
                let mut at = self.cursors.clone();
                at[number].clone_from(&event.cursor);
                self.news.push_back(Event { cursor: at.join(","), ..event });
            }
        }
        Ok(!self.news.is_empty())
    }
}

fn is_cursor(text: &str) -> bool {
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u64>().is_ok();
    text.split_once('-').is_some_and(|(time, number)| is_number(time) && is_number(number))
}
