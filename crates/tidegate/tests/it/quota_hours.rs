//! The hours of a quota: what was used at most in each of the last day, whoever has charged its counters.

use std::time::Duration;

use tidegate::limit::{Calendar, LimitOptions, Period, Sliding};
use tidegate::run::QuotaKind;
use tidegate::{ErrorKind, Key};

use crate::kit::REDIS;
use crate::log_lines::LogLines;
use crate::quota::{FULL_HOUR_MS, HOUR, MINUTE, World, cost, options};

/// What is enforced is what is shown: the most of an hour is that of the counter, whoever has charged it and how.
#[tokio::test]
async fn hours_have_what_was_charged_in_any_way() {
    for world in World::everywhere() {
        let lines = LogLines::default();
        let _log = tracing::subscriber::set_default(lines.clone());
        let gate = world.process(None).await;
        let quota = gate.quota(options(QuotaKind::Aligned, 100)).unwrap();
        // Another process knows of no quota; a store in this process has no others.
        let other = if world.on == "memory" { gate.clone() } else { world.process(None).await };
        let hourly = Calendar::new(125, Period::Hour).unwrap().with_safety_buffer(25).unwrap();
        let limit = other.limit("rate_limit", hourly, LimitOptions::default()).unwrap();
        let daily = other.limit("daily", Calendar::new(1000, Period::Day).unwrap(), LimitOptions::default());
        let (daily, all) = (daily.unwrap(), Key::EVERYONE);
        let minute = Duration::from_secs(60);
        let mut expected = Vec::new();
        for (hour, way) in [
            "behind", "alone", "both", "with", "all", "held", "spent", "by id", "refunded", "released",
            "subject",
        ]
        .into_iter()
        .enumerate()
        {
            world.at(hour as u64 * HOUR + 7 * MINUTE);
            let most = match way {
                "behind" => {
                    quota.charge(cost(5), Some("a")).await.unwrap();
                    limit.take(all, cost(30)).await.unwrap();
                    35
                }
                "alone" => {
                    limit.take(all, cost(10)).await.unwrap();
                    limit.take(all, cost(1)).await.unwrap();
                    // What is refused is not used.
                    assert!(!limit.take(all, cost(90)).await.unwrap().is_admitted());
                    11
                }
                "both" => {
                    limit.take(all, cost(10)).await.unwrap();
                    assert_eq!(lines.take("the quota counts a new hour").len(), 1, "that of the first hour");
                    for _ in 0..3 {
                        quota.charge(cost(2), None).await.unwrap();
                    }
                    let said = lines.take("the quota counts a new hour");
                    assert_eq!((said.len(), said[0].fields["used"].as_str()), (1, "11"), "{}", world.on);
                    16
                }
                "with" => {
                    limit.take_with(all, "50/h".parse().unwrap(), cost(12)).await.unwrap();
                    12
                }
                "all" => {
                    other.take_all(all, &[(&limit, cost(13)), (&daily, cost(1))]).await.unwrap();
                    13
                }
                "held" => {
                    limit.reserve(all, "r1", cost(14), minute).await.unwrap();
                    limit.release(all, "r1").await.unwrap();
                    14
                }
                "spent" => {
                    limit.reserve(all, "r2", cost(9), minute).await.unwrap();
                    limit.commit(all, "r2").await.unwrap();
                    limit.take(all, cost(6)).await.unwrap();
                    15
                }
                "by id" => {
                    limit.charge(all, "c1", cost(17)).await.unwrap();
                    limit.charge(all, "c1", cost(17)).await.unwrap();
                    17
                }
                "refunded" => {
                    let taken = limit.take(all, cost(18)).await.unwrap();
                    limit.refund(all, taken.receipt().unwrap()).await.unwrap();
                    limit.take(all, cost(1)).await.unwrap();
                    18
                }
                "released" => {
                    quota.charge(cost(19), Some("b")).await.unwrap();
                    quota.release("b").await.unwrap();
                    19
                }
                // The limit of somebody is not the quota.
                _ => {
                    limit.take(Key::new("somebody").unwrap(), cost(99)).await.unwrap();
                    limit.take(all, cost(2)).await.unwrap();
                    2
                }
            };
            expected.insert(0, (FULL_HOUR_MS + hour as u64 * HOUR + 7 * MINUTE, Some(most)));
        }
        // Hours later, when no counter of them is left.
        world.at(20 * HOUR);
        let hours = quota.status().await.unwrap().hours;
        let found: Vec<_> =
            hours.iter().map(|it| (it.first_charge_at.as_millis(), it.most_aligned)).collect();
        assert_eq!(found, expected, "{}", world.on);
        // A program that writes the counter itself is seen while its hour lasts.
        if world.on == "redis" {
            let counter = format!("{}:courtlistener:rate_limit:2024-09-18_10", world.namespace.as_str());
            let _: i64 = redis::cmd("INCRBY").arg(&counter).arg(7).query(&mut REDIS.connection()).unwrap();
            let now = quota.status().await.unwrap();
            assert_eq!((now.aligned.unwrap().used, now.hours[0].most_aligned), (7, Some(7)));
            assert_eq!(now.hours.len(), expected.len() + 1);
        }
    }
}

/// The same of any 60 minutes: whoever takes from the limit that a quota has for that.
#[tokio::test]
async fn sliding_hours_have_what_was_charged_in_any_way() {
    for world in World::everywhere() {
        let gate = world.process(None).await;
        let quota = gate.quota(options(QuotaKind::Both, 100)).unwrap();
        let other = if world.on == "memory" { gate.clone() } else { world.process(None).await };
        let hourly = Sliding::new("100/h".parse().unwrap(), Duration::from_secs(3600)).unwrap();
        let same = LimitOptions::default().prefix("courtlistener".to_owned());
        let limit = other.limit("rate_limit_sliding", hourly, same).unwrap();
        world.at(7 * MINUTE);
        quota.charge(cost(5), None).await.unwrap();
        for _ in 0..2 {
            limit.take(Key::EVERYONE, cost(10)).await.unwrap();
        }
        world.at(3 * HOUR);
        limit.reserve(Key::EVERYONE, "r", cost(8), Duration::from_secs(60)).await.unwrap();
        limit.commit(Key::EVERYONE, "r").await.unwrap();
        world.at(10 * HOUR);
        let hours = quota.status().await.unwrap().hours;
        let found: Vec<_> = hours.iter().map(|it| (it.most_aligned, it.most_sliding)).collect();
        assert_eq!(found, [(Some(0), Some(8)), (Some(5), Some(25))], "{}", world.on);
    }
}

/// What somebody else has under the name of the hours stops no take, and a quota says what it is.
#[tokio::test]
async fn hours_of_another_type_stop_no_take() {
    let world = World::new("redis", REDIS.url());
    let gate = world.process(None).await;
    let quota = gate.quota(options(QuotaKind::Aligned, 100)).unwrap();
    let hourly = Calendar::new(125, Period::Hour).unwrap().with_safety_buffer(25).unwrap();
    let limit = gate.limit("rate_limit", hourly, LimitOptions::default()).unwrap();
    let hours = format!("{}:courtlistener:rate_limit:hours", world.namespace.as_str());
    let () =
        redis::cmd("SET").arg(&hours).arg("x").arg("EX").arg(900).query(&mut REDIS.connection()).unwrap();
    assert!(limit.take(Key::EVERYONE, cost(3)).await.unwrap().is_admitted());
    for error in [quota.charge(cost(1), Some("a")).await.unwrap_err(), quota.status().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
    // Nothing was charged by what failed.
    assert_eq!(limit.peek(Key::EVERYONE).await.unwrap().quota().remaining, 97);
}
