"""What every kind of queue must do, tested against all of them alike."""
