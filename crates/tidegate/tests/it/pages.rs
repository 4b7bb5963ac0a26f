//! What the pages show is what the library does.

#[path = "../../examples/picture.rs"]
mod picture;

#[tokio::test]
async fn the_picture_of_limits_is_up_to_date() {
    let shown = include_str!("../../../../docs/limits.svg");
    let drawn = picture::picture().await.unwrap();
    assert!(shown == drawn, "cargo run -p tidegate --example picture > docs/limits.svg");
}
