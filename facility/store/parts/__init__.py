"""What a store can be asked and told, one class per group of tables; `Store` is all of them."""
