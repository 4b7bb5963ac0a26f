use super::*;
use crate::clock::Timestamp;
use crate::hot::position::PositionStatus;

fn position(ms: u64) -> Position {
    Position { life: 7, ms, number: 0 }
}

fn happened(ms: u64) -> Happened {
    let (kind, at) = (EventKind::Promoted, Timestamp::from_millis(ms));
    Happened { position: position(ms), kind, page: ms.to_string(), edits: 2, at }
}

fn news(from: Position, events: std::ops::Range<u64>) -> News {
    News { status: PositionStatus::Known, from, events: events.map(happened).collect() }
}

/// All that is there for it: how many were missed as `-n`, else when.
fn rest(ring: &Ring, place: &mut Place) -> Vec<i64> {
    let mut seen = Vec::new();
    while let Next::Event(it) = ring.next(place).unwrap() {
        let is_missed = it.kind == EventKind::Missed;
        seen.push(if is_missed { -(it.edits as i64) } else { it.position.ms as i64 });
    }
    seen
}

#[test]
fn everyone_takes_what_comes_after_its_own_position() {
    let mut ring = Ring::default();
    let mut early = Place::at(position(10));
    assert!(matches!(ring.next(&mut early), Ok(Next::Behind)), "nothing is known yet");
    ring.take(news(position(10), 0..0));
    assert!(matches!(ring.next(&mut early), Ok(Next::Nothing)));
    let mut behind = Place::at(position(9));
    assert!(matches!(ring.next(&mut behind), Ok(Next::Behind)));
    // Somebody asked the store after what the reader is about to read.
    let mut ahead = Place::at(position(12));
    assert!(matches!(ring.next(&mut ahead), Ok(Next::Nothing)));
    ring.take(news(position(10), 11..15));
    assert_eq!(rest(&ring, &mut early), [11, 12, 13, 14]);
    assert_eq!(rest(&ring, &mut ahead), [13, 14]);
    assert_eq!(rest(&ring, &mut Place::at(position(13))), [14]);
    assert!(matches!(ring.next(&mut Place::at(Position { life: 8, ..position(13) })), Ok(Next::Behind)));
    assert!(ring.covers(position(10)) && ring.covers(position(14)));
    assert!(!ring.covers(position(9)) && !ring.covers(position(15)));
}

#[test]
fn who_is_too_slow_is_told_how_many_it_missed_and_goes_on() {
    let mut ring = Ring::default();
    ring.take(news(position(0), 0..0));
    let (mut slow, mut fast) = (Place::at(position(0)), Place::at(position(0)));
    assert!(matches!(ring.next(&mut slow), Ok(Next::Nothing)));
    ring.take(news(position(0), 1..3));
    assert_eq!(rest(&ring, &mut fast), [1, 2]);
    ring.take(news(position(2), 3..1206));
    assert_eq!(ring.events.len(), RING);
    let seen = rest(&ring, &mut slow);
    assert_eq!((seen[0], seen[1], seen.len()), (-205, 206, 1001));
    let seen = rest(&ring, &mut fast);
    assert_eq!((seen[0], seen[1], *seen.last().unwrap()), (-203, 206, 1205));
    // Who comes with a position that has left is behind, and one that has not is whole.
    assert!(matches!(ring.next(&mut Place::at(position(204))), Ok(Next::Behind)));
    assert_eq!(rest(&ring, &mut Place::at(position(205)))[0], 206);
}

#[test]
fn a_gap_of_the_reader_is_told_to_all_who_were_there_and_to_nobody_else() {
    let mut ring = Ring::default();
    ring.take(news(position(5), 6..8));
    let mut there = Place::at(position(6));
    assert_eq!(rest(&ring, &mut there), [7]);
    let from = Position { life: 8, ms: 0, number: 0 };
    let events = vec![Happened { position: Position { life: 8, ..position(1) }, ..happened(1) }];
    ring.take(News { status: PositionStatus::Missed, from, events });
    assert_eq!(rest(&ring, &mut there), [0, 1], "a gap of unknown length, and what came after it");
    assert_eq!(rest(&ring, &mut Place::at(from)), [1]);
    assert!(matches!(ring.next(&mut Place::at(position(7))), Ok(Next::Behind)), "of the life before");
}
