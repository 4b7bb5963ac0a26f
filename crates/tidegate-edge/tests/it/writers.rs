//! Many who write at once: every change that was acknowledged has a number of its own, and all of them fit together.

use std::collections::BTreeSet;

use tidegate_edge::truth::{Change, Condition};

use crate::kit::{World, terms};

const WRITERS: usize = 64;
const CHANGES: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_writers_leave_no_gap_in_a_file() {
    leave_no_gap(World::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_writers_leave_no_gap_over_two_servers() {
    leave_no_gap(World::postgres().await).await;
}

async fn leave_no_gap(world: World) {
    let servers = [world.truth.clone(), world.another_server().await];
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let truth = servers[writer % 2].clone();
            tokio::spawn(async move {
                let mut numbers = Vec::new();
                for number in 0..CHANGES {
                    // Some rules are everybody's, some paths are wanted by many.
                    let id = if number % 3 == 0 {
                        "shared".to_owned()
                    } else {
                        format!("{writer}-{}", number % 4)
                    };
                    let path = if number % 5 == 0 { format!("/p{}", writer % 8) } else { format!("/{id}") };
                    let change = match number % 4 {
                        3 => Change::Delete { id, condition: Condition::None },
                        _ => Change::Replace {
                            id,
                            terms: terms(&path, &format!("https://example.com/{writer}/{number}")),
                            condition: Condition::None,
                        },
                    };
                    if let Ok(written) = truth.change(change).await.unwrap() {
                        numbers.extend(written.seq.map(|seq| seq.0));
                    }
                }
                numbers
            })
        })
        .collect();
    let mut numbers = BTreeSet::new();
    for writer in writers {
        let own = writer.await.unwrap();
        assert!(own.is_sorted(), "one's own changes are in order");
        for number in own {
            assert!(numbers.insert(number), "{number} was given twice");
        }
    }
    let last = world.truth.position().await.unwrap().seq.0;
    assert_eq!(numbers, (1..=last).collect(), "each was somebody's");
    world.check().await;
}
