//! Random histories in every room, on every store, beside the models of the test kit.
//!
//! `TIDEGATE_HISTORY_OPS` says how many operations run on memory; on servers a part of it does.

use tidegate::session::SessionOptions;
use tidegate::testkit::RedisServer;
use tidegate::testkit::history::operations;

use crate::kit::{CLUSTER, On, REDIS};
use crate::session_audit::audit;

mod limit {
    use tidegate::testkit::limit::history::{check, check_raw_events};

    use super::*;

    #[test]
    fn memory_agrees_with_the_models() {
        check(&On::url("memory:"), operations());
    }

    #[test]
    fn redis_agrees_with_the_models() {
        check(&On::url(REDIS.url()), operations() / 50);
    }

    #[test]
    fn the_cluster_agrees_with_the_models() {
        check(&On::cluster(), operations() / 200);
    }

    #[test]
    fn no_window_holds_more_than_the_capacity_in_memory() {
        check_raw_events(&On::url("memory:"), operations());
    }

    #[test]
    fn no_window_holds_more_than_the_capacity_on_redis() {
        check_raw_events(&On::url(REDIS.url()), operations() / 50);
    }
}

mod reservations {
    use tidegate::testkit::limit::reservation_history::check;

    use super::*;

    #[test]
    fn memory_agrees_with_the_model() {
        check(&On::url("memory:"), operations());
    }

    #[test]
    fn redis_agrees_with_the_model() {
        check(&On::url(REDIS.url()), operations() / 5);
    }

    #[test]
    fn the_cluster_agrees_with_the_model() {
        check(&On::cluster(), operations() / 200);
    }
}

mod hot {
    use tidegate::testkit::hot::history::check;

    use super::*;

    #[test]
    fn memory_agrees_with_the_model() {
        check(&On::url("memory:"), operations());
    }

    #[test]
    fn the_cluster_agrees_with_the_model() {
        check(&On::cluster(), operations() / 40);
    }

    /// And whatever happens, every key has an end, indices that are emptied and made anew included.
    #[test]
    fn redis_agrees_with_the_model_and_leaves_no_key_without_an_end() {
        let server = RedisServer::start();
        check(&On::url(server.url()), operations() / 10);
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connection()).unwrap();
        let families =
            ["activity:", "hot:window:", "hot:editors:", "hot:rank", "hot:activities", "hot:events"];
        for family in families {
            assert!(keys.iter().any(|key| key.contains(family)), "no key of {family}");
        }
        assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
    }
}

mod session {
    use tidegate::testkit::session::history::check;
    use tidegate::testkit::session::{Kit, Library};

    use super::*;

    /// A store of which all that was written is looked at after each history.
    struct Audited<'a>(On, &'a [RedisServer]);

    impl Kit for Audited<'_> {
        type Face = Library;

        async fn fresh(&self, options: SessionOptions) -> Library {
            Kit::fresh(&self.0, options).await
        }

        fn is_partitioned(&self) -> bool {
            self.0.is_partitioned()
        }

        fn look_below(&self, face: &Library, sessions: u64) {
            let connections = self.1.iter().map(RedisServer::connection).collect();
            assert_eq!(audit(connections, &format!("{}:", face.namespace)) as u64, sessions);
        }
    }

    #[test]
    fn memory_agrees_with_the_model() {
        check(&On::url("memory:"), operations());
    }

    #[test]
    fn redis_agrees_with_the_model_and_what_it_writes_is_whole() {
        let server = RedisServer::start();
        let on = Audited(On::url(server.url()), std::slice::from_ref(&server));
        check(&on, operations() / 10);
        assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
    }

    #[test]
    fn the_cluster_agrees_with_the_model_and_what_it_writes_is_whole() {
        check(&Audited(On::cluster(), CLUSTER.nodes()), operations() / 40);
    }
}

mod run {
    use tidegate::run::RunOptions;
    use tidegate::testkit::run::history::check;
    use tidegate::testkit::run::{Kit, Library};

    use super::*;
    use crate::run_audit::audit;

    /// A store of which all that was written is looked at after each history.
    struct Audited<'a>(On, &'a [RedisServer]);

    impl Kit for Audited<'_> {
        type Face = Library;

        async fn fresh(&self, options: RunOptions) -> Library {
            Kit::fresh(&self.0, options).await
        }

        fn is_partitioned(&self) -> bool {
            Kit::is_partitioned(&self.0)
        }

        fn look_below(&self, face: &Library) {
            let connections = self.1.iter().map(RedisServer::connection).collect();
            audit(connections, &format!("{}:", face.namespace));
        }
    }

    #[test]
    fn memory_agrees_with_the_model() {
        check(&On::url("memory:"), operations());
    }

    #[test]
    fn redis_agrees_with_the_model_and_what_it_writes_is_whole() {
        let server = RedisServer::start();
        check(&Audited(On::url(server.url()), std::slice::from_ref(&server)), operations() / 10);
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connection()).unwrap();
        let parts = ["pipeline", "fields", "processed", "failures", "failed_at", "to_retry", "tasks"];
        for family in parts.into_iter().chain(["task_start", "failed"]) {
            let family = format!(":courtlistener:{family}:");
            assert!(keys.iter().any(|key| key.contains(&family)), "no key of {family}");
        }
        assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
    }

    #[test]
    fn the_cluster_agrees_with_the_model_and_what_it_writes_is_whole() {
        check(&Audited(On::cluster(), CLUSTER.nodes()), operations() / 40);
    }
}
