module rusm/peers/actors

go 1.24
