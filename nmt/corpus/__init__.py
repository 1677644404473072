"""From sources on the web to encoded pairs. No TensorFlow here."""
