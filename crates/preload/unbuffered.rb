# Loaded by every ruby that 'millstream run --unbuffered' starts (RUBYOPT): what is written leaves at once.
$stdout.sync = true
