"""Spark and Ray on machines that are reached by ssh: the program ssh-cluster."""
