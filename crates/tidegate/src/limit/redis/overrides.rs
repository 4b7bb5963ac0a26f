//! Overrides on Redis: a key's own rate, for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use compact_str::{CompactString, ToCompactString as _};

use super::super::overrides::Override;
use super::super::token::MAX_TICKS;
use super::reply::REPLIES;
use super::scripts::OVERRIDE;
use super::{OVERRIDES_BY_END, OnRedis};
use crate::error::Result;
use crate::key::Key;
use crate::store::redis::Call;

impl OnRedis {
    /// Sets, ends or reads an override: for how long, its rate, and the same in ticks.
    async fn override_call(&self, key: Key<'_>, args: [CompactString; 4]) -> Result<Option<Override>> {
        let place = self.store.place(key.as_str());
        let call = Call::new(&OVERRIDE)
            .shared_keys(Arc::new([self.index(&place.prefix, OVERRIDES_BY_END)]))
            .shared_args(self.override_args.clone())
            .key(format!("{}{}override:{}", place.prefix, self.root, key.as_str()))
            .args(args)
            .arg(key.as_str());
        let value = self.store.call(place.partition, call).await?;
        let mut fields = REPLIES.list(&value)?;
        let (left_ms, rate) = (fields.number()?, fields.text()?);
        if left_ms == 0 {
            return Ok(None);
        }
        Ok(Some(Override { rate: rate.parse()?, lasting: Duration::from_millis(left_ms) }))
    }

    pub(in crate::limit) async fn set_override(&self, key: Key<'_>, new: Override) -> Result<Override> {
        // One that the limit cannot have now is refused now.
        self.algorithm.terms_of(new.rate)?;
        let (permit, drain) = new.rate.per_microsecond_within(MAX_TICKS);
        let [lasting, permit, drain] =
            [new.lasting_ms(), permit, drain].map(|number| number.to_compact_string());
        let args = [lasting, new.rate.to_compact_string(), permit, drain];
        self.has_overrides.store(true, Ordering::Relaxed);
        Ok(self.override_call(key, args).await?.unwrap_or(new))
    }

    pub(in crate::limit) async fn get_override(&self, key: Key<'_>) -> Result<Option<Override>> {
        self.override_call(key, ["", "", "", ""].map(CompactString::from)).await
    }

    pub(in crate::limit) async fn clear_override(&self, key: Key<'_>) -> Result<()> {
        self.override_call(key, ["0", "", "", ""].map(CompactString::from)).await.map(|_| ())
    }
}
