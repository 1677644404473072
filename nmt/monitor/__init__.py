"""What the machine was doing while it trained."""
