"""The trained model as a CTranslate2 model, and translating with it. No TensorFlow here."""
