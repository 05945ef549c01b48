select coalesce(current_setting('tidegate.apply', true), '') = $1
