//! One suite per room, every store.

use crate::kit::{CLUSTER, On, REDIS, TLS};

mod limit {
    use tidegate::limit_conformance;

    use super::*;

    limit_conformance!(memory, On::url("memory:"));
    limit_conformance!(redis, On::url(REDIS.url()));
    limit_conformance!(
        redis_16_partitions,
        On { url: REDIS.url(), options: |options| options.partitions = Some(16) }
    );
    limit_conformance!(
        tls,
        On { url: TLS.url(), options: |options| options.tls_ca = Some(TLS.ca_pem().to_vec()) }
    );
    limit_conformance!(cluster, On::url(CLUSTER.url()));
    limit_conformance!(
        cluster_1_partition,
        On { url: CLUSTER.url(), options: |options| options.partitions = Some(1) }
    );
}

mod hot {
    use tidegate::{hot_conformance, hot_counting_conformance};

    use super::*;

    hot_counting_conformance!(counting_memory, On::url("memory:"));
    hot_counting_conformance!(counting_redis, On::url(REDIS.url()));
    hot_counting_conformance!(
        counting_cluster,
        On { url: CLUSTER.url(), options: |options| options.partitions = Some(8) }
    );
    hot_conformance!(memory, On::url("memory:"));
    hot_conformance!(redis, On::url(REDIS.url()));
    hot_conformance!(cluster, On { url: CLUSTER.url(), options: |options| options.partitions = Some(8) });
}

mod session {
    use tidegate::session_conformance;

    use super::*;

    session_conformance!(memory, On::url("memory:"));
    session_conformance!(redis, On::url(REDIS.url()));
    session_conformance!(cluster, On::cluster());
}

mod run {
    use tidegate::run_conformance;

    use super::*;

    run_conformance!(memory, On::url("memory:"));
    run_conformance!(redis, On::url(REDIS.url()));
    run_conformance!(cluster, On::cluster());
}
