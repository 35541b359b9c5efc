[line_length: 120, inputs: ["*.exs"]]
