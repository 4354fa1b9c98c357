"""How often gates stop a good model, and how early a bad one, beside a rule of thumb."""
