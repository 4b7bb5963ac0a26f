//! One suite, every store.

use tidegate::limit_conformance;

use crate::kit::{CLUSTER, On, REDIS, TLS};

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
