"""Commands about messages themselves: to publish and look at them, to have them come again, and to ask what became of one."""
